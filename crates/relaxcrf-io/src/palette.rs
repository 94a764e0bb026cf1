//! Colours for labels.

use relaxcrf::error::{Error, Result};

/// 256 colours, one per label of an 8-bit label map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Palette {
    colours: [[u8; 3]; 256],
}

impl Palette {
    /// The colours of the PASCAL VOC label maps.
    ///
    /// The label's lowest three bits go to the top bits of red, green and blue, the next three to the
    /// second bits, and so on: labels close in number get colours far apart.
    pub fn voc() -> Self {
        let mut colours = [[0; 3]; 256];
        for (label, colour) in colours.iter_mut().enumerate() {
            for bit in 0..8 {
                colour[bit % 3] |= ((label >> bit & 1) as u8) << (7 - bit / 3);
            }
        }
        Self { colours }
    }

    /// The given colours for the first labels, the VOC colours for those after.
    pub fn new(first: &[[u8; 3]]) -> Result<Self> {
        let mut palette = Self::voc();
        match palette.colours.get_mut(..first.len()) {
            Some(place) => place.copy_from_slice(first),
            None => return Err(Error::value("number of palette colours", first.len(), "at most 256")),
        }
        Ok(palette)
    }

    /// The colour of a label; from 256 on they repeat.
    pub fn colour(&self, label: u16) -> [u8; 3] {
        self.colours[usize::from(label) % 256]
    }

    /// Red, green, blue of every label in turn.
    pub(super) fn bytes(&self) -> &[u8] {
        self.colours.as_flattened()
    }
}

impl Default for Palette {
    fn default() -> Self {
        Self::voc()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voc_palette_has_the_published_colours() {
        let p = Palette::default();
        let known = [
            (0, [0, 0, 0]),
            (1, [128, 0, 0]),
            (2, [0, 128, 0]),
            (3, [128, 128, 0]),
            (4, [0, 0, 128]),
            (8, [64, 0, 0]),
            (15, [192, 128, 128]),
            (20, [0, 64, 128]),
            (255, [224, 224, 192]),
        ];
        for (label, colour) in known {
            assert_eq!(p.colour(label), colour, "label {label}");
        }
        assert_eq!(p.colour(256), [0, 0, 0]);
        assert_eq!(p.bytes().len(), 768);
    }

    #[test]
    fn palette_has_own_colours_before_those_of_voc() {
        let p = Palette::new(&[[1, 2, 3]]).unwrap();
        assert_eq!(p.colour(0), [1, 2, 3]);
        assert_eq!(p.colour(1), [128, 0, 0]);
        assert!(Palette::new(&[[0; 3]; 257]).is_err());
    }
}
