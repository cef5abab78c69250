//! The page: the files of web/dist. They are public; what they show, they ask for with the token.

use crate::reply::{self, Reply};
use bytes::Bytes;
use std::sync::OnceLock;

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asset {
    Document,
    Script,
    Style,
    Icon,
}

/// As a client gets it that takes gzip; packed when it is asked for the first time.
static PACKED: [OnceLock<Bytes>; 4] = [const { OnceLock::new() }; 4];

impl Asset {
    /// The one at a path. The application tells its screens by what follows the /.
    pub fn at(path: &str) -> Option<Self> {
        const SCREENS: [&str; 8] =
            ["overview", "flame", "table", "timeline", "diff", "suspects", "allocator", "source"];
        match path {
            "/" => Some(Self::Document),
            "/app.js" => Some(Self::Script),
            "/app.css" => Some(Self::Style),
            "/icon.svg" => Some(Self::Icon),
            _ => path
                .strip_prefix('/')
                .filter(|screen| SCREENS.contains(screen))
                .map(|_| Self::Document),
        }
    }

    pub fn reply(self, takes_gzip: bool) -> Reply {
        let (kind, text) = match self {
            Self::Document => {
                ("text/html; charset=utf-8", include_str!("../../../web/dist/index.html"))
            }
            Self::Script => {
                ("text/javascript; charset=utf-8", include_str!("../../../web/dist/app.js"))
            }
            Self::Style => ("text/css; charset=utf-8", include_str!("../../../web/dist/app.css")),
            Self::Icon => ("image/svg+xml", include_str!("../../../web/dist/icon.svg")),
        };
        if !takes_gzip {
            return reply::of(kind, text);
        }
        let packed = PACKED[self as usize].get_or_init(|| reply::gzip(text.as_bytes()).into());
        reply::as_packed(reply::of(kind, packed.clone()))
    }
}
