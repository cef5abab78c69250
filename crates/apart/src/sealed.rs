//! Files of others that pass through a process without being open there.
//!
//! Who closes a file tells its file system, and waits: one of FUSE that never answers keeps even a process that ends. A file in a message
//! that was not received is closed without.

use crate::channel::MOST_FILES;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

/// A socket at which `file` waits in a message. This process has closed it by then.
pub fn sealed(file: File) -> io::Result<File> {
    let (from, to) = UnixDatagram::pair()?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(&from, &[IoSlice::new(&[])], &mut control, SendFlags::NOSIGNAL)?;
    drop(file);
    Ok(OwnedFd::from(to).into())
}

/// The file that waits there, and goes on waiting; `file` itself if nothing does. `None`: a socket without one.
pub fn unsealed(file: File) -> Option<File> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::PEEK | RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    match recvmsg(&file, &mut [IoSliceMut::new(&mut [])], &mut control, flags) {
        Ok(_) => {}
        Err(Errno::NOTSOCK) => return Some(file),
        Err(_) => return None,
    }
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let files: Vec<OwnedFd> = files.flatten().collect();
    files.into_iter().next().map(File::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fstat;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_sealed_file_is_open_only_where_it_is_unsealed_as_often_as_it_is() {
        let path = std::env::current_exe().unwrap();
        let open = || File::open(&path).unwrap();
        let identity = |file: &File| fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).unwrap();
        let sealed = sealed(open()).unwrap();
        assert!(sealed.read_at(&mut [0], 0).is_err());
        for _ in 0..2 {
            let file = unsealed(sealed.try_clone().unwrap()).unwrap();
            assert_eq!(identity(&file), identity(&open()));
        }
        assert_eq!(identity(&unsealed(open()).unwrap()), identity(&open()));
        let empty = UnixDatagram::pair().unwrap();
        assert!(unsealed(OwnedFd::from(empty.0).into()).is_none());
    }
}
