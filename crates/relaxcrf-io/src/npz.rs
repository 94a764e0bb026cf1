//! NumPy's `.npz`: a zip archive of `.npy` arrays.

use std::io::{BufReader, Read};
use std::path::Path;

use zip::ZipArchive;

use super::array::Array;
use super::npy::{self, Sample};
use super::{Kind, Source, open};
use relaxcrf::error::{Error, Result, plain};

/// Deflate cannot shrink by more than this; a greater claim is a lie.
const MAX_COMPRESSION: u64 = 1032;

/// The names of the arrays in an `.npz` file, in the order they were saved.
pub fn list_npz(path: &Path) -> Result<Vec<String>> {
    let (_, keys) = open_archive(path, open(path)?)?;
    Ok(keys)
}

/// One array of an `.npz` file by its name.
pub fn read_npz(path: &Path, key: &str) -> Result<Array> {
    let (shape, data) = read(path, open(path)?, &[key], false)?;
    Ok(Array { shape, data })
}

/// The first of `names` that is there; or, if `or_only`, the file's only array.
pub(super) fn read<T: Sample>(
    path: &Path,
    source: Source,
    names: &[&str],
    or_only: bool,
) -> Result<(Vec<usize>, Vec<T>)> {
    with_entry(path, source, names, or_only, |key, entry, length| {
        let array = npy::read(path, entry, length)?;
        // The checksum is compared only once the entry has been read to its end.
        std::io::copy(entry, &mut std::io::sink())
            .map_err(|e| Error::file(path, format!("array {key} is damaged: {e}")))?;
        Ok(array)
    })
}

/// The shape of that array; or of the file's only one.
pub(super) fn shape(path: &Path, source: Source, names: &[&str]) -> Result<Vec<usize>> {
    with_entry(path, source, names, true, |_, entry, length| npy::shape(path, entry, length))
}

fn with_entry<T>(
    path: &Path,
    source: Source,
    names: &[&str],
    or_only: bool,
    visit: impl FnOnce(&str, &mut dyn Read, u64) -> Result<T>,
) -> Result<T> {
    let (mut archive, keys) = open_archive(path, source)?;
    let key = match (&keys[..], or_only) {
        ([only], true) => only,
        _ => names.iter().find_map(|w| keys.iter().find(|k| k == w)).ok_or_else(|| {
            let found = if keys.is_empty() {
                "no arrays".into()
            } else {
                format!("the arrays {}", plain(&keys.join(", ")))
            };
            Error::file(path, format!("holds {found}; expected {}", names.join(" or ")))
        })?,
    };
    let fail = |e: zip::result::ZipError| Error::file(path, format!("array {key}: {e}"));
    let mut entry = archive.by_name(&format!("{key}.npy")).map_err(fail)?;
    let (packed, length) = (entry.compressed_size(), entry.size());
    if length / MAX_COMPRESSION > packed {
        return Err(Error::file(
            path,
            format!("array {key} claims {length} bytes, packed into {packed}: impossible"),
        ));
    }
    visit(key, &mut entry, length)
}

type Archive = ZipArchive<BufReader<std::fs::File>>;

fn open_archive(path: &Path, source: Source) -> Result<(Archive, Vec<String>)> {
    if source.kind != Kind::Zip {
        return Err(Error::file(path, "is not an .npz archive"));
    }
    let archive = ZipArchive::new(source.reader)
        .map_err(|e| Error::file(path, format!("the .npz archive is cut off or damaged: {e}")))?;
    // Names that are no text cannot be one of ours.
    let names = archive.file_names().filter_map(|name| name.ok());
    let keys = names.filter_map(|name| name.strip_suffix(".npy").map(str::to_string)).collect();
    Ok((archive, keys))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::PathBuf;

    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::super::testing::{folder, shared};
    use super::super::{read_array, write_npy_f32};
    use super::*;

    fn archive(dir: &Path, entries: &[(&str, &[f32])]) -> PathBuf {
        let path = dir.join("a.npz");
        let mut zip = ZipWriter::new(fs::File::create(&path).unwrap());
        for (i, (key, data)) in entries.iter().enumerate() {
            let method = [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated][i % 2];
            zip.start_file(format!("{key}.npy"), SimpleFileOptions::default().compression_method(method))
                .unwrap();
            let single = dir.join("single.npy");
            write_npy_f32(&single, &[data.len()], data).unwrap();
            zip.write_all(&fs::read(&single).unwrap()).unwrap();
        }
        zip.finish().unwrap();
        path
    }

    #[test]
    fn npz_array_is_found_by_key_or_as_the_only_one() {
        let dir = folder();
        assert_eq!(read_array(&archive(dir.path(), &[("anything", &[1.0, 2.0])])).unwrap().data, [1.0, 2.0]);
        let both = archive(dir.path(), &[("image", &[1.0]), ("probs", &[2.0; 5000])]);
        assert_eq!(read_array(&both).unwrap().data, [2.0; 5000]);
        assert_eq!(read_npz(&both, "image").unwrap().data, [1.0]);
        assert_eq!(list_npz(&both).unwrap(), ["image", "probs"]);
        let e = read_npz(&both, "prob").unwrap_err().to_string();
        assert!(e.contains("image, probs") && e.contains("expected prob"), "{e}");
        let long = archive(dir.path(), &[(&"n".repeat(5000), &[1.0]), ("\x1b[31m", &[1.0])]);
        let e = read_npz(&long, "prob").unwrap_err().to_string();
        assert!(e.len() < 500 && e.contains("nnn…; expected prob"), "{e}");
        let unknown = archive(dir.path(), &[("x", &[1.0]), ("y", &[2.0])]);
        let e = read_array(&unknown).unwrap_err().to_string();
        assert!(e.contains("x, y") && e.contains("prob or probs"), "{e}");
        assert!(read_array(&archive(dir.path(), &[])).unwrap_err().to_string().contains("no arrays"));
    }

    #[test]
    fn damaged_npz_is_an_error_not_a_panic() {
        let dir = folder();
        let path = archive(dir.path(), &[("a", &[3.0; 40]), ("prob", &[4.0; 40])]);
        let whole = fs::read(&path).unwrap();
        let broken = dir.path().join("broken.npz");
        for cut in 0..whole.len() {
            fs::write(&broken, &whole[..cut]).unwrap();
            assert!(read_array(&broken).is_err(), "cut at {cut}");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            fs::write(&broken, &bytes).unwrap();
            // An error or, where the byte did not matter (dates, names), one of the arrays; never garbage.
            if let Ok(array) = read_array(&broken) {
                assert!(array.data == [3.0; 40] || array.data == [4.0; 40], "flipped byte {at}");
            }
        }
    }

    #[test]
    fn real_npz_probabilities_are_read() {
        let Some(path) = shared("data/segmentation/msrc/probs/1_1_s.npz") else { return };
        let a = read_array(&path).unwrap();
        assert_eq!(a.shape[0], 21);
        let n = a.shape[1] * a.shape[2];
        for pixel in (0..n).step_by(97) {
            let sum: f32 = (0..21).map(|l| a.data[l * n + pixel]).sum();
            assert!((sum - 1.0).abs() < 0.02, "{sum}");
        }
    }
}
