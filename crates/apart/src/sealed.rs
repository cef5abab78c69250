//! Files of others that are open in the process that opened them, and in those that read them, and nowhere else.
//!
//! Who closes a file waits for its file system, even when the process is ended: one of FUSE that never answers would keep it for ever. So
//! processes pass each other a socket, at which the file can be asked for.

use crate::channel::{Channel, Message};
use rustix::fs::{FileType, fstat};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

/// Stack of a thread that keeps a file, in bytes.
const STACK_BYTES: usize = 64 << 10;

/// A socket at which `file`, which stays open here, can be asked for.
pub fn sealed(file: File) -> io::Result<File> {
    let (ours, theirs) = UnixStream::pair()?;
    // Closes the file once nobody has the socket; should that never end, only this thread waits.
    let keep = move || {
        let asked = Channel(ours);
        while let Ok(Some(Message { files, .. })) = asked.receive(0, || Ok(())) {
            for to in files {
                // Who asked may be gone.
                let _ = channel(to).send(0, &[], &[file.as_fd()]);
            }
        }
    };
    thread::Builder::new().stack_size(STACK_BYTES).spawn(keep)?;
    Ok(OwnedFd::from(theirs).into())
}

/// The file that can be asked for there, opened in this process; `file` itself if it is none of these sockets. `None`: who kept it has gone.
pub fn unsealed(file: File) -> Option<File> {
    if FileType::from_raw_mode(fstat(&file).ok()?.st_mode) != FileType::Socket {
        return Some(file);
    }
    let (ours, theirs) = UnixStream::pair().ok()?;
    channel(file).send(0, &[], &[theirs.as_fd()]).ok()?;
    drop(theirs);
    let answer = Channel(ours).receive(0, || Ok(())).ok()??;
    answer.files.into_iter().next()
}

fn channel(socket: File) -> Channel {
    Channel(UnixStream::from(OwnedFd::from(socket)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use rustix::net::{RecvFlags, recv};
    use std::os::unix::fs::FileExt;

    #[test]
    fn sealed_file_can_be_unsealed_repeatedly() {
        let path = std::env::current_exe().unwrap();
        let open = || File::open(&path).unwrap();
        let identity = |file: &File| fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).unwrap();
        let sealed = sealed(open()).unwrap();
        assert!(sealed.read_at(&mut [0], 0).is_err());
        // Nor does it wait there: who drops a message has to close what is in it.
        let waits = recv(&sealed, &mut [0][..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        assert_eq!(waits.err(), Some(Errno::AGAIN));
        for _ in 0..2 {
            let file = unsealed(sealed.try_clone().unwrap()).unwrap();
            assert_eq!(identity(&file), identity(&open()));
        }
        assert_eq!(identity(&unsealed(open()).unwrap()), identity(&open()));
        let (abandoned, _) = UnixStream::pair().unwrap();
        assert!(unsealed(OwnedFd::from(abandoned).into()).is_none());
    }
}
