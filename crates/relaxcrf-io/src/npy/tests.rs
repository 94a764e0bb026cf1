use std::fs;
use std::io::Cursor;

use proptest::prelude::*;

use super::super::testing::folder;
use super::*;

fn file(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let text = format!(
        "{{'descr': '{descr}', 'fortran_order': {}, 'shape': {shape}, }}\n",
        if fortran { "True" } else { "False" }
    );
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
    out.extend(data);
    out
}

fn parse<T: Sample>(bytes: &[u8]) -> Result<(Vec<usize>, Vec<T>)> {
    read(Path::new("some.npy"), &mut Cursor::new(bytes), bytes.len() as u64)
}

fn message(bytes: &[u8]) -> String {
    parse::<f32>(bytes).unwrap_err().to_string()
}

#[test]
fn npy_of_every_type_and_byte_order_is_read() {
    let check = |descr: &str, little: &[u8], expected: &[f32]| {
        let shape = format!("({},)", expected.len());
        let size = little.len() / expected.len();
        let (s, v) = parse::<f32>(&file(&format!("<{descr}"), false, &shape, little)).unwrap();
        assert_eq!((s, v.as_slice()), (vec![expected.len()], expected), "<{descr}");
        let big: Vec<u8> = little.chunks(size).flat_map(|c| c.iter().rev().copied()).collect();
        assert_eq!(
            parse::<f32>(&file(&format!(">{descr}"), false, &shape, &big)).unwrap().1,
            expected,
            ">{descr}"
        );
    };
    check("b1", &[0, 1], &[0.0, 1.0]);
    check("u1", &[0, 255], &[0.0, 255.0]);
    check("i1", &[0x80, 5], &[-128.0, 5.0]);
    check("u2", &[1, 2, 0, 0], &[513.0, 0.0]);
    check("i2", &(-513i16).to_le_bytes(), &[-513.0]);
    check("u4", &70_000u32.to_le_bytes(), &[70_000.0]);
    check("i4", &(-70_000i32).to_le_bytes(), &[-70_000.0]);
    check("u8", &(1u64 << 40).to_le_bytes(), &[1.0995116e12]);
    check("i8", &(-5i64).to_le_bytes(), &[-5.0]);
    check("f2", &[0x00, 0x3c, 0x00, 0xc0], &[1.0, -2.0]);
    check("f4", &1.25f32.to_le_bytes(), &[1.25]);
    check("f8", &(-1e-3f64).to_le_bytes(), &[-1e-3]);
    assert_eq!(parse::<f32>(&file("|u1", false, "()", &[7])).unwrap(), (vec![], vec![7.0]));
}

#[test]
fn npy_half_precision_is_exact() {
    // Neighbouring bit patterns differ by the spacing of their binade: this pins every finite half.
    for bits in 0u16..0x7c00 {
        let spacing = 2f64.powi((i32::from(bits >> 10)).max(1) - 25);
        let next = if bits == 0x7bff { 65_536.0 } else { half_to_f64(bits + 1) };
        assert_eq!(half_to_f64(bits) + spacing, next);
        assert_eq!(half_to_f64(bits | 0x8000), -half_to_f64(bits));
        assert_eq!(f64::from(half_to_f64(bits) as f32), half_to_f64(bits));
    }
    assert_eq!(half_to_f64(0), 0.0);
    assert_eq!(half_to_f64(0x3555), 0.333_251_953_125);
    assert_eq!(half_to_f64(0xfc00), f64::NEG_INFINITY);
    assert!(half_to_f64(0x7e00).is_nan());
}

#[test]
fn npy_fortran_order_is_transposed() {
    // np.asfortranarray([[1,2,3],[4,5,6]]) is stored column by column.
    let (shape, v) = parse::<f32>(&file("|u1", true, "(2, 3)", &[1, 4, 2, 5, 3, 6])).unwrap();
    assert_eq!((shape, v), (vec![2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    assert_eq!(parse::<f32>(&file("|u1", true, "(0, 3)", &[])).unwrap().1, []);
    assert_eq!(parse::<f32>(&file("|u1", true, "()", &[9])).unwrap().1, [9.0]);
}

#[test]
fn npy_versions_2_and_3_and_odd_spacing_are_read() {
    let text = "{ \"shape\" : (2L,) ,'fortran_order':False, \"descr\":'<f4'}   \n";
    for version in [2, 3] {
        let mut bytes = b"\x93NUMPY".to_vec();
        bytes.extend([version, 0]);
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(1f32.to_le_bytes());
        bytes.extend(2f32.to_le_bytes());
        assert_eq!(parse::<f32>(&bytes).unwrap(), (vec![2], vec![1.0, 2.0]));
        // Bytes after the array are another array's business.
        bytes.extend(b"trailing");
        assert_eq!(parse::<f32>(&bytes).unwrap().1, [1.0, 2.0]);
    }
}

#[test]
fn damaged_npy_is_an_error_that_names_the_file() {
    let huge = message(&file("<f4", false, "(1000000, 1000000, 1000000)", &[0; 16]));
    assert!(huge.contains("some.npy") && huge.contains("1000000 x 1000000"), "{huge}");
    let big = message(&file("<f8", false, "(100000, 10000)", &[0; 16]));
    assert!(big.contains("cut off") && big.contains("8000000000 bytes"), "{big}");
    assert!(message(&file("<f8", false, "(99999999999999999999999,)", &[])).contains("not understood"));
    assert!(message(&file("|O", false, "(1,)", &[0; 8])).contains("Python objects"));
    assert!(message(&file("<c8", false, "(1,)", &[0; 8])).contains("complex"));
    assert!(message(&file("<f16", false, "(1,)", &[0; 16])).contains("<f16"));
    assert!(message(&file("<U3", false, "(1,)", &[0; 12])).contains("<U3"));
    assert!(message(b"\x93NUMPY\x09\x00\x00\x00").contains("version 9"));
    assert!(message(b"\x93NUMPY\x02\x00\xff\xff\xff\xff").contains("cut off"));
    assert!(message(b"hello, this is no array").contains("not a .npy"));
    assert!(message(b"\x93NUM").contains("cannot be read"));
    let whole = file("<f4", false, "(2, 2)", &[0; 16]);
    for cut in 0..whole.len() {
        assert!(parse::<f32>(&whole[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn npy_labels_must_be_integers_in_range() {
    assert_eq!(parse::<u16>(&file("<i8", false, "(1,)", &255i64.to_le_bytes())).unwrap().1, [255]);
    let floats = parse::<u16>(&file("<f4", false, "(1,)", &[0; 4])).unwrap_err().to_string();
    assert!(floats.contains("floating-point"), "{floats}");
    let negative = parse::<u16>(&file("|i1", false, "(2,)", &[3, 255])).unwrap_err().to_string();
    assert!(negative.contains("-1 at element 1"), "{negative}");
    assert!(parse::<u16>(&file("<u4", false, "(1,)", &65_536u32.to_le_bytes())).is_err());
}

#[test]
fn written_npy_header_equals_numpys() {
    let dir = folder();
    let path = dir.path().join("a.npy");
    write_npy_f32(&path, &[2, 3], &[1.0; 6]).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 128 + 24);
    assert!(bytes.starts_with(
        b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
    ));
    assert_eq!(bytes[127], b'\n');
    assert!(header::bytes("<f4", &[5]).windows(4).any(|w| w == b"(5,)"));
    assert!(header::bytes("<f4", &[]).windows(2).any(|w| w == b"()"));
    assert!(write_npy_f32(&path, &[2, 2], &[1.0; 6]).unwrap_err().to_string().contains("6 values"));
}

proptest! {
    #[test]
    fn round_trip(shape in prop::collection::vec(0usize..6, 0..4), seed in any::<u32>()) {
        let n: usize = shape.iter().product();
        let data: Vec<f32> = (0..n).map(|i| f32::from_bits(seed.wrapping_mul(i as u32 + 1) & 0x7f7f_ffff)).collect();
        let dir = folder();
        let path = dir.path().join("a.npy");
        write_npy_f32(&path, &shape, &data).unwrap();
        prop_assert_eq!(parse::<f32>(&fs::read(&path).unwrap()).unwrap(), (shape, data));
    }

    #[test]
    fn fortran_equals_index_arithmetic(a in 1usize..5, b in 1usize..5, c in 1usize..5) {
        let stored: Vec<u8> = (0..(a * b * c) as u8).collect();
        let (_, v) = parse::<f32>(&file("|u1", true, &format!("({a}, {b}, {c})"), &stored)).unwrap();
        for (i, j, k) in (0..a).flat_map(|i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k)))) {
            prop_assert_eq!(v[(i * b + j) * c + k], (i + a * (j + b * k)) as f32);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), real in any::<bool>()) {
        if real {
            // Keep a plausible start so that the header's parser is reached.
            let mut start = file("<f4", false, "(3,)", &[]);
            start.extend(&bytes);
            for (i, b) in bytes.iter().take(4).enumerate() {
                let at = 8 + (usize::from(*b) * (i + 1)) % 50;
                start[at] ^= 1 << (i % 8);
            }
            bytes = start;
        }
        let _ = parse::<f32>(&bytes);
        let _ = parse::<u16>(&bytes);
    }
}
