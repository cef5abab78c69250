//! Messages with descriptors, over a socket.
//!
//! A message is a head (kind, number of descriptors, length) and a body. The descriptors come with the head.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

/// The kernel takes 253.
pub const MOST_FILES: usize = 240;
const HEAD_BYTES: usize = 10;
/// Read at once.
const PIECE_BYTES: usize = 1 << 20;

/// A message that came.
#[derive(Debug)]
pub struct Message {
    pub kind: u8,
    pub body: Vec<u8>,
    pub files: Vec<File>,
}

/// One end.
#[derive(Debug)]
pub struct Channel(pub UnixStream);

impl Channel {
    pub fn send(&self, kind: u8, body: &[u8], files: &[BorrowedFd]) -> io::Result<()> {
        let mut head = [0; HEAD_BYTES];
        head[0] = kind;
        head[1] = u8::try_from(files.len()).map_err(|_| ErrorKind::ArgumentListTooLong)?;
        head[2..].copy_from_slice(&(body.len() as u64).to_le_bytes());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(ErrorKind::ArgumentListTooLong.into());
        }
        let sent = sendmsg(&self.0, &[IoSlice::new(&head)], &mut control, SendFlags::NOSIGNAL)?;
        // The kernel sends so few bytes whole or not at all.
        if sent != HEAD_BYTES {
            return Err(ErrorKind::WriteZero.into());
        }
        (&self.0).write_all(body)
    }

    /// The next message, of at most so many bytes; `None`: the other end is closed. `wait` is called whenever nothing has come for a
    /// while; its error ends the waiting.
    pub fn receive(
        &self,
        most_bytes: u64,
        mut wait: impl FnMut() -> io::Result<()>,
    ) -> io::Result<Option<Message>> {
        let mut head = [0; HEAD_BYTES];
        let mut files = Vec::new();
        let mut filled = 0;
        while filled < HEAD_BYTES {
            let read = self.receive_head(&mut head[filled..], &mut files);
            match again(read, &mut wait)? {
                Some(0) if filled == 0 => return Ok(None),
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(count) => filled += count,
                None => {}
            }
        }
        let length = u64::from_le_bytes(head[2..].try_into().unwrap_or_default());
        if files.len() != usize::from(head[1]) || length > most_bytes {
            return Err(ErrorKind::InvalidData.into());
        }
        let body = self.body(length as usize, wait)?;
        Ok(Some(Message { kind: head[0], body, files }))
    }

    fn receive_head(&self, head: &mut [u8], files: &mut Vec<File>) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(head)];
        let received = recvmsg(&self.0, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                files.extend(descriptors.map(File::from));
            }
        }
        Ok(received.bytes)
    }

    /// Takes memory as the bytes come, not as they are announced.
    fn body(&self, length: usize, mut wait: impl FnMut() -> io::Result<()>) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        while body.len() < length {
            let filled = body.len();
            body.try_reserve(length.min(filled + PIECE_BYTES) - filled)?;
            body.resize(length.min(filled + PIECE_BYTES), 0);
            let read = (&self.0).read(&mut body[filled..]);
            let count = again(read, &mut wait)?;
            body.truncate(filled + count.unwrap_or(0));
            match count {
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                // The rest may come a byte at a time.
                Some(_) if body.len() < length => wait()?,
                _ => {}
            }
        }
        Ok(body)
    }
}

/// `None`: nothing has come yet.
fn again(
    read: io::Result<usize>,
    wait: &mut impl FnMut() -> io::Result<()>,
) -> io::Result<Option<usize>> {
    match read {
        Ok(count) => Ok(Some(count)),
        Err(error) => match error.kind() {
            ErrorKind::Interrupted => Ok(None),
            ErrorKind::WouldBlock => wait().map(|()| None),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom};
    use std::os::fd::AsFd;

    fn pair() -> (Channel, Channel) {
        let (one, other) = UnixStream::pair().unwrap();
        (Channel(one), Channel(other))
    }

    #[test]
    fn a_message_comes_with_its_descriptors() {
        let (one, other) = pair();
        let path = std::env::current_exe().unwrap();
        let [first, second] = [File::open(&path).unwrap(), File::open(&path).unwrap()];
        let body = vec![7; 3 << 20];
        let files = [first.as_fd(), second.as_fd()];
        std::thread::scope(|scope| {
            scope.spawn(|| one.send(3, &body, &files).unwrap());
            let message = other.receive(1 << 30, || Ok(())).unwrap().unwrap();
            assert_eq!((message.kind, message.body.len()), (3, 3 << 20));
            assert_eq!(message.body, body);
            let [first, _] = &message.files[..] else { panic!("{message:?}") };
            assert_eq!((&*first).seek(SeekFrom::End(0)).unwrap(), path.metadata().unwrap().len());
        });
        drop(one);
        assert!(other.receive(9, || Ok(())).unwrap().is_none());
    }

    #[test]
    fn long_or_cut_message_is_refused() {
        let (one, other) = pair();
        one.send(0, &[1, 2, 3], &[]).unwrap();
        let error = other.receive(2, || Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let (one, other) = pair();
        let mut head = vec![0, 0];
        head.extend(5u64.to_le_bytes());
        (&one.0).write_all(&head).unwrap();
        (&one.0).write_all(&[1]).unwrap();
        drop(one);
        let error = other.receive(1 << 40, || Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }
}
