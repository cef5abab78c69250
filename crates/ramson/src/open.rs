//! `serve --open`: shows the page in a browser.
//!
//! Every local user can read a command line, so the address with its token is not on it: the browser is given a file that only
//! this user can read, and which leads there.

use crate::output::remark;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs, thread};

/// The file, as long as there is this.
pub struct Door {
    file: PathBuf,
}

impl Door {
    /// Shows `address`, or says in a line why that cannot be done.
    pub fn open(address: &str) -> Result<Self, String> {
        if !address.starts_with("http://") {
            return Err("--open: a browser cannot open a Unix socket. Leave it out".into());
        }
        let door = Self::to(address).map_err(|error| {
            format!(
                "--open: cannot write a file for the browser: {error}. Open the address yourself"
            )
        })?;
        let browser = env::var("BROWSER").unwrap_or_default();
        let browser = browser.split(':').next().unwrap_or_default();
        let mut words = browser.split_whitespace();
        let program = words.next().unwrap_or("xdg-open").to_owned();
        let mut command = Command::new(&program);
        command.args(words).arg(format!("file://{}", door.file.display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| {
            format!(
                "--open: cannot start {program}: {error}. Set BROWSER, or open the address yourself"
            )
        })?;
        thread::spawn(move || match child.wait() {
            Ok(status) if !status.success() => {
                remark(format!("--open: {program} failed ({status}). Open the address yourself"));
            }
            _ => {}
        });
        Ok(door)
    }

    fn to(address: &str) -> io::Result<Self> {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let directory = env::var_os("XDG_RUNTIME_DIR").map_or_else(env::temp_dir, PathBuf::from);
        let name = format!("ramson-{:016x}.html", u64::from_ne_bytes(random));
        let door = Self { file: directory.join(name) };
        let mut options = File::options();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&door.file)?;
        // The address has nothing in it that would have to be escaped.
        writeln!(
            file,
            "<!DOCTYPE html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
             <meta http-equiv=\"refresh\" content=\"0;url={address}\"><a href=\"{address}\">ramson</a>"
        )?;
        Ok(door)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // It may be gone by now.
        let _ = fs::remove_file(&self.file);
    }
}
