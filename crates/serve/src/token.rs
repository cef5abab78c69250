//! The secret that lets a client in.

use form_urlencoded::byte_serialize;
use hmac::{Hmac, KeyInit, Mac};
use ramson_source::Failure;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::getuid;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::Sha256;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use subtle::ConstantTimeEq;

/// Random bytes of a new token: two letters for each.
const RANDOM_BYTES: usize = 24;
/// A shorter one can be guessed.
const LEAST_LETTERS: usize = 16;
const MOST_LETTERS: usize = 512;
/// The user of basic authentication.
const USER: &str = "ramson";

/// The secret. It is compared in constant time, and has no `Debug` and no `Display`, so that no message shows it by accident.
pub struct Token(String);

impl Token {
    /// A new one.
    pub fn random() -> Result<Self, Failure> {
        let mut bytes = [0; RANDOM_BYTES];
        let mut filled = 0;
        while filled < bytes.len() {
            let got = getrandom(&mut bytes[filled..], GetRandomFlags::empty());
            filled +=
                got.map_err(|error| Failure::failed(format!("no random numbers: {error}")))?;
        }
        Ok(Self(hexadecimal(&bytes)))
    }

    /// The one that a file holds. If there is no such file, a new one is put there, for this user only.
    pub fn of_file(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let failed = |error: &dyn std::fmt::Display, next: &str| {
            Failure::failed(format!("{shown}: {error}. {next}"))
        };
        let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match open(path, create | flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => {
                let token = Self::random()?;
                let written = writeln!(File::from(file), "{}", token.0);
                written.map_err(|error| failed(&error, "Choose another file"))?;
                return Ok(token);
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(&error, "Choose a file that can be written")),
        }
        let file = open(path, OFlags::RDONLY | flags, Mode::empty())
            .map_err(|error| failed(&error, "Pass a regular file that this user may read"))?;
        Self::read(File::from(file)).map_err(|(finding, next)| failed(&finding, next))
    }

    /// Reads the token from an open file, which must be this user's secret.
    fn read(file: File) -> Result<Self, (String, &'static str)> {
        let facts = file.metadata().map_err(|error| (error.to_string(), "Choose another file"))?;
        if !facts.is_file() {
            return Err(("not a regular file".into(), "Pass a regular file"));
        }
        if facts.uid() != getuid().as_raw() && facts.uid() != 0 {
            return Err((format!("it belongs to user {}", facts.uid()), "Pass a file of your own"));
        }
        if facts.mode() & 0o077 != 0 {
            let mode = facts.mode() & 0o777;
            return Err((format!("other users may read it (mode {mode:o})"), "Make its mode 0600"));
        }
        let mut text = String::new();
        let read = file.take(MOST_LETTERS as u64 + 2).read_to_string(&mut text);
        read.map_err(|error| (error.to_string(), "Choose another file"))?;
        let token = text.trim();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        match token.len() {
            LEAST_LETTERS..=MOST_LETTERS if token.bytes().all(is_plain) => Ok(Self(token.into())),
            _ => Err((
                format!("not a token ({LEAST_LETTERS} to {MOST_LETTERS} letters, digits and -._~)"),
                "Remove the file: the next start makes one",
            )),
        }
    }

    /// As the end of an address: fragments are not sent to any server.
    pub fn fragment(&self) -> String {
        format!("#token={}", byte_serialize(self.0.as_bytes()).collect::<String>())
    }

    /// Proves to a client that calls the server `host` that the server has the token: HMAC-SHA256 of both, with the token as key.
    pub fn proof(&self, nonce: &str, host: &str) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).expect("any length will do");
        mac.update(nonce.as_bytes());
        mac.update(host.as_bytes());
        hexadecimal(&mac.finalize().into_bytes())
    }

    /// Whether it is what a client's `Authorization` says: `Bearer TOKEN`, or `Basic` with the user `ramson`.
    pub fn admits(&self, authorization: &str) -> bool {
        let (scheme, given) = authorization.split_once(' ').unwrap_or((authorization, ""));
        let is_equal = |given: &[u8]| bool::from(given.ct_eq(self.0.as_bytes()));
        if scheme.eq_ignore_ascii_case("bearer") {
            return is_equal(given.trim().as_bytes());
        }
        let decoded = scheme.eq_ignore_ascii_case("basic").then(|| base64(given.trim())).flatten();
        let decoded = decoded.unwrap_or_default();
        let password = decoded.strip_prefix(USER.as_bytes()).and_then(|it| it.strip_prefix(b":"));
        password.is_some_and(is_equal)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes what basic authentication is written in.
fn base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_whole_token_admits() {
        let token = Token("0123456789abcdef".into());
        // ramson:0123456789abcdef, root:0123456789abcdef, ramson:0123456789abcde
        for good in [
            "Bearer 0123456789abcdef",
            "bearer 0123456789abcdef",
            "Basic cmFtc29uOjAxMjM0NTY3ODlhYmNkZWY=",
        ] {
            assert!(token.admits(good), "{good}");
        }
        for bad in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "0123456789abcdef",
            "Basic cm9vdDowMTIzNDU2Nzg5YWJjZGVm",
            "Basic cmFtc29uOjAxMjM0NTY3ODlhYmNkZQ==",
            "Basic !",
            "Digest 0123456789abcdef",
        ] {
            assert!(!token.admits(bad), "{bad}");
        }
    }

    #[test]
    fn proof_is_hmac_of_both() {
        let proof = Token("0123456789abcdef".into()).proof(&"5a".repeat(32), "127.0.0.1:7777");
        assert_eq!(proof, "c299c558e75a68e1f6bda34844f39e30acf22b488e62f190b6e64e077364ba38");
    }

    #[test]
    fn two_new_tokens_differ() {
        let [one, other] = [(); 2].map(|()| Token::random().unwrap().0);
        assert!(one != other && one.len() == 2 * RANDOM_BYTES);
    }

    #[test]
    fn token_file_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let made = Token::of_file(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Token::of_file(&path).unwrap().0, made.0);
        let refusal = |path: &Path| Token::of_file(path).err().unwrap().to_string();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert!(refusal(&path).contains("Make its mode 0600"));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        for text in ["", "short", "0123456789 abcdef", &"a".repeat(600)] {
            fs::write(&path, text).unwrap();
            assert!(refusal(&path).contains("not a token"), "{text}");
        }
        fs::write(&path, "0123456789abcdef").unwrap();
        let link = directory.path().join("link");
        symlink(&path, &link).unwrap();
        refusal(&link);
        refusal(directory.path());
    }
}
