//! What work needs that is done outside the event loop.

use crate::documents::{Document, Documents};
use crate::reply::{self, Reply};
use crate::sources::{Entry, Sources};
use crate::watch::Watch;
use crate::work::Overload;
use ramson_analysis::naming::Names;
use ramson_source::Failure;
use std::path::PathBuf;
use std::sync::Arc;

/// What came of a request: an answer, a failure, or neither in time.
pub type Answered = Result<Result<Reply, Failure>, Overload>;

/// What answers are made of.
pub struct Parts {
    pub sources: Sources,
    pub names: Names,
    pub documents: Arc<dyn Documents>,
    /// Where source files may be.
    pub source_roots: Vec<PathBuf>,
    pub watch: Arc<Watch>,
}

impl Parts {
    /// The source with this ID, or the only one.
    pub fn find(&self, id: Option<&str>) -> Result<Entry, Failure> {
        self.sources.find(id)
    }

    /// All sources, as a document.
    pub fn list(&self) -> Result<Reply, Failure> {
        let mut body = Vec::new();
        ramson_encode::json::write_document(Some("sources"), &self.sources.entries()?, &mut body)?;
        Ok(reply::document(body))
    }

    /// A document of the command line, of the source with this ID, or of the only one.
    pub fn document(
        &self,
        id: Option<&str>,
        document: Document,
        words: &[(String, String)],
    ) -> Result<Reply, Failure> {
        let source = match document.is_of_source() {
            true => Some(self.find(id)?.source),
            false => None,
        };
        self.documents.make(document, source.as_deref(), words).map(reply::document)
    }
}
