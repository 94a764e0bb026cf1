//! BMP files made by hand, of every kind that is read; the expected colours are those that Pillow shows where it reads
//! the kind.

use std::fs;

use super::super::testing::folder;
use super::super::{image_size, read_image, read_labels};
use super::*;

/// Width, height (negative from the top down), bits, compression, size of the header.
struct Kind(i32, i32, u16, u32, u32);

fn file(
    Kind(width, height, bits, compression, head): Kind,
    colours: u32,
    tables: &[u8],
    pixels: &[u8],
) -> Vec<u8> {
    let mut file = b"BM".to_vec();
    let put = |file: &mut Vec<u8>, v: u32| file.extend(v.to_le_bytes());
    let start = 14 + head + tables.len() as u32;
    for value in [start + pixels.len() as u32, 0, start, head] {
        put(&mut file, value);
    }
    if head == 12 {
        [width as u16, height as u16, 1, bits].iter().for_each(|v| file.extend(v.to_le_bytes()));
    } else {
        put(&mut file, width as u32);
        put(&mut file, height as u32);
        file.extend([1, 0, bits as u8, 0]);
        for value in [compression, pixels.len() as u32, 0, 0, colours, 0] {
            put(&mut file, value);
        }
    }
    file.extend(tables);
    file.extend(pixels);
    file
}

/// The colours of a file, row by row.
fn read(bytes: &[u8]) -> std::result::Result<Vec<[u8; 3]>, String> {
    let dir = folder();
    let path = dir.path().join("a.bmp");
    fs::write(&path, bytes).unwrap();
    let image = read_image(&path).map_err(|e| e.to_string())?;
    assert_eq!(image_size(&path).unwrap(), (image.width, image.height, image.channels));
    assert!(read_labels(&path).unwrap_err().to_string().contains("colour image"));
    Ok(image.to_bytes().as_chunks().0.to_vec())
}

const RED: [u8; 3] = [255, 0, 0];
const BLUE: [u8; 3] = [0, 0, 255];
const GREEN: [u8; 3] = [0, 128, 0];
const BLACK: [u8; 3] = [0; 3];

/// Red, blue, green, as blue, green, red and a byte that means nothing.
const PALETTE: [u8; 12] = [0, 0, 255, 0, 255, 0, 0, 0, 0, 128, 0, 0];

#[test]
fn bmp_indices_are_looked_up_from_the_bottom_row_up() {
    for (bits, bottom, top) in [
        (1, [0b0100_0000, 0, 0, 0], [0b1010_0000, 0, 0, 0]),
        (2, [0b0001_0000, 0, 0, 0], [0b0100_0100, 0, 0, 0]),
        (4, [0x01, 0x00, 0, 0], [0x10, 0x10, 0, 0]),
        (8, [0, 1, 0, 0], [1, 0, 1, 0]),
    ] {
        let (bottom, top) = (&bottom[..], &top[..]);
        let expected = [BLUE, RED, BLUE, RED, BLUE, RED];
        let up = file(Kind(3, 2, bits, 0, 40), 2, &PALETTE[..8], &[bottom, top].concat());
        assert_eq!(read(&up).unwrap(), expected, "{bits} bits");
        let down = file(Kind(3, -2, bits, 0, 40), 2, &PALETTE[..8], &[top, bottom].concat());
        assert_eq!(read(&down).unwrap(), expected, "{bits} bits from the top down");
        if bits != 2 {
            let palette: Vec<u8> =
                PALETTE.chunks(4).cycle().take(1 << bits).flat_map(|c| &c[..3]).copied().collect();
            let old = file(Kind(3, 2, bits, 0, 12), 0, &palette, &[bottom, top].concat());
            assert_eq!(read(&old).unwrap(), expected, "{bits} bits, the oldest header");
        }
    }
    let beyond = file(Kind(2, 1, 8, 0, 40), 2, &PALETTE[..8], &[1, 9, 0, 0]);
    assert_eq!(read(&beyond).unwrap(), [BLUE, BLACK], "an index beyond the palette is black");
    let e = read(&file(Kind(1, 1, 1, 0, 40), 3, &PALETTE, &[0; 4])).unwrap_err();
    assert!(e.contains("a palette of 3 colours; expected at most 2"), "{e}");
}

#[test]
fn bmp_colours_of_16_to_32_bits_are_read() {
    let of = |bits, compression, head, tables: &[u8], pixels: &[u8]| {
        read(&file(Kind(2, 1, bits, compression, head), 0, tables, pixels)).unwrap()
    };
    assert_eq!(of(16, 0, 40, &[], &[0x00, 0x7c, 0xe1, 0x03]), [RED, [0, 255, 8]]);
    assert_eq!(of(24, 0, 40, &[], &[0, 0, 255, 255, 0, 0, 9, 9]), [RED, BLUE]);
    assert_eq!(of(24, 0, 12, &[], &[0, 0, 255, 255, 0, 0, 9, 9]), [RED, BLUE]);
    assert_eq!(of(32, 0, 40, &[], &[0, 0, 255, 7, 255, 0, 0, 7]), [RED, BLUE]);
    let masks = |masks: [u32; 4]| masks.map(u32::to_le_bytes).concat();
    // Five, six and five bits, the masks behind the header.
    let m = masks([0xf800, 0x7e0, 0x1f, 0]);
    assert_eq!(of(16, 3, 40, &m[..12], &[0x00, 0xf8, 0x21, 0x00]), [RED, [0, 4, 8]]);
    // Red first and alpha, the masks within the header.
    let m = masks([0xff, 0xff00, 0xff_0000, 0xff00_0000]);
    let mut tables = m;
    tables.resize(124 - 40, 0);
    let mut whole = file(Kind(2, 1, 32, 3, 40), 0, &tables, &[255, 0, 0, 1, 0, 0, 255, 1]);
    whole[14] = 124;
    assert_eq!(read(&whole).unwrap(), [RED, BLUE]);
    // Ten bits a colour: the upper eight.
    let m = masks([0x3ff0_0000, 0xf_fc00, 0x3ff, 0]);
    assert_eq!(of(32, 3, 40, &m[..12], &[0xff, 0x03, 0xf0, 0x3f, 0x04, 0, 0, 0]), [[255, 0, 255], [0, 0, 1]]);
    for bad in [[0, 0xff00, 0xff, 0], [0x5, 0xff00, 0xff_0000, 0]] {
        let e = read(&file(Kind(1, 1, 32, 3, 40), 0, &masks(bad)[..12], &[0; 4])).unwrap_err();
        assert!(e.contains("colour mask") && e.contains("expected adjacent bits of 32"), "{e}");
    }
}

#[test]
fn bmp_colour_of_any_width_is_scaled_to_255() {
    for bits in 1..=8u32 {
        let field = Field::new(((1 << bits) - 1) << 3, 32).unwrap();
        let most = (1 << bits) - 1;
        for value in 0..=most {
            let expected = (f64::from(value) * 255.0 / f64::from(most)).round() as u8;
            assert_eq!(field.colour(value << 3 | 7), expected, "{value} of {bits} bits");
        }
    }
}

#[test]
fn bmp_runs_cover_their_pixels_and_others_are_black() {
    let wide = |runs: &[u8]| read(&file(Kind(4, 2, 8, 1, 40), 3, &PALETTE, runs));
    let narrow = |runs: &[u8]| read(&file(Kind(4, 2, 4, 2, 40), 3, &PALETTE, runs));
    let lines = |bottom: [[u8; 3]; 4], top: [[u8; 3]; 4]| [top, bottom].concat();
    // A run, the end of the row, three pixels one by one and a byte to fill up.
    let plain = wide(&[4, 1, 0, 0, 0, 3, 0, 1, 2, 0, 0, 1]).unwrap();
    assert_eq!(plain, lines([BLUE; 4], [RED, BLUE, GREEN, BLACK]));
    let plain = narrow(&[4, 0x12, 0, 0, 0, 3, 0x01, 0x20, 0, 1]).unwrap();
    assert_eq!(plain, lines([BLUE, GREEN, BLUE, GREEN], [RED, BLUE, GREEN, BLACK]));
    // A jump to the right, one upwards, and the end of the picture without a mark.
    assert_eq!(wide(&[0, 2, 2, 0, 1, 2, 0, 2, 0, 1, 1, 1, 0, 0]).unwrap(), {
        lines([BLACK, BLACK, GREEN, BLACK], [BLACK, BLACK, BLACK, BLUE])
    });
    // Runs of bytes may be too long, as some programs write them.
    assert_eq!(wide(&[9, 1, 0, 0, 0, 1]).unwrap(), lines([BLUE; 4], [BLACK; 4]));
    for (bad, why) in [
        (&[0, 5, 1, 1, 1, 1, 1, 0][..], "beyond the end"),
        (&[0, 2, 5, 0], "beyond the end"),
        (&[0, 2, 0, 2], "beyond the end"),
        (&[4, 1, 0], "cut off"),
    ] {
        let e = wide(bad).unwrap_err();
        assert!(e.contains("a.bmp: the picture cannot be read:") && e.contains(why), "{bad:?}: {e}");
    }
    assert!(narrow(&[5, 0x11]).unwrap_err().contains("beyond the end"));
}

#[test]
fn damaged_bmp_header_is_an_error_with_the_expected_value() {
    let good = file(Kind(3, 2, 24, 0, 40), 0, &[], &[5; 24]);
    assert!(read(&good).is_ok());
    let with = |at: usize, value: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + value.len()].copy_from_slice(value);
        read(&bad).unwrap_err()
    };
    for (message, expected) in [
        (with(14, &[41]), "BMP header of 41 bytes; expected 12, 40"),
        (with(18, &[0xff; 4]), "a width of -1; expected at least 1"),
        (with(18, &[0; 4]), "the header claims 0 x 2 pixels"),
        (with(22, &[0, 0, 0, 0x80]), "the header claims 3 x 2147483648 pixels"),
        (with(22, &[3]), "claims 3 x 3 pixels in 36 bytes, but 24 bytes are left; the file is cut off"),
        (with(26, &[2]), "2 colour planes; expected 1"),
        (with(28, &[5]), "compression 0 with 5 bits per pixel; expected"),
        (with(30, &[4]), "compression 4 with 24 bits per pixel; expected"),
        (with(10, &[0xff; 4]), "but 0 bytes are left"),
    ] {
        assert!(message.contains(expected), "{message}");
    }
    for cut in 2..54 {
        assert!(read(&good[..cut]).unwrap_err().contains("cut off"), "cut at {cut}");
    }
    let e = read(&file(Kind(1, -1, 8, 1, 40), 0, &[0; 1024], &[0, 1])).unwrap_err();
    assert!(e.contains("compression 1 with 8 bits per pixel from the top down"), "{e}");
    assert!(read(&file(Kind(1, 1, 8, 0, 40), 9, &PALETTE, &[])).unwrap_err().contains("palette is cut off"));
}
