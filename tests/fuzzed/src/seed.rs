//! First inputs.

/// An input to begin with.
pub struct Seed {
    /// Name of the case that it shows; used as a file name.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
    /// It was found to break a reader: which finding of the threat model's survey that was.
    pub finding: Option<u32>,
}

impl Seed {
    /// One that no reader ever had trouble with.
    pub fn new(name: &str, bytes: Vec<u8>) -> Self {
        Self { name: name.to_owned(), bytes, finding: None }
    }

    /// One that broke a reader.
    pub fn of_finding(finding: u32, name: &str, bytes: Vec<u8>) -> Self {
        Self { finding: Some(finding), ..Self::new(&format!("{finding}-{name}"), bytes) }
    }
}

/// Both.
pub fn joined(first: &[u8], second: &[u8]) -> Vec<u8> {
    [first, second].concat()
}
