//! The program `relaxcrf`.
fn main() {}
