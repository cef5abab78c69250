//! Names and paths, each kept once, at the expense of the budget of the files that they are from: parts of one long text in a file can be
//! as many long names.

use hashbrown::HashSet;
use std::sync::Arc;

use crate::budget::Budget;

/// Texts that were met.
pub(crate) struct Texts {
    known: HashSet<Arc<str>>,
    budget: Budget,
    /// Why some were left out.
    pub refusal: Option<String>,
}

impl Texts {
    pub fn new(budget: Budget) -> Self {
        Self { known: HashSet::new(), budget, refusal: None }
    }

    /// The text as it is kept; `None` if that would be too much.
    pub fn keep(&mut self, text: &str) -> Option<Arc<str>> {
        if let Some(known) = self.known.get(text) {
            return Some(known.clone());
        }
        if let Err(reason) = self.budget.take(text.len() as u64) {
            self.refusal.get_or_insert_with(|| format!("names: {reason}"));
            return None;
        }
        let kept: Arc<str> = text.into();
        self.known.insert(kept.clone());
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_paid_for_once() {
        let budget = Budget::of(false);
        budget.take(budget.left() - 10).unwrap();
        let mut texts = Texts::new(budget.clone());
        for _ in 0..3 {
            assert_eq!(texts.keep("ten bytes!").as_deref(), Some("ten bytes!"));
        }
        assert_eq!((budget.left(), &texts.refusal), (0, &None));
        assert_eq!(texts.keep("one more"), None);
        assert!(texts.refusal.unwrap().contains("more than the 512 MiB allowed"));
    }
}
