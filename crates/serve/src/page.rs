//! The page: a table of what is served. Its files are public; what they show, they ask for with the token.

use crate::reply::{self, Reply};

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asset {
    Document,
    Script,
    Style,
}

impl Asset {
    /// The one at a path.
    pub fn at(path: &str) -> Option<Self> {
        match path {
            "/" => Some(Self::Document),
            "/app.js" => Some(Self::Script),
            "/app.css" => Some(Self::Style),
            _ => None,
        }
    }

    pub fn reply(self) -> Reply {
        match self {
            Self::Document => {
                reply::of("text/html; charset=utf-8", include_str!("page/index.html"))
            }
            Self::Script => {
                reply::of("text/javascript; charset=utf-8", include_str!("page/app.js"))
            }
            Self::Style => reply::of("text/css; charset=utf-8", include_str!("page/app.css")),
        }
    }
}
