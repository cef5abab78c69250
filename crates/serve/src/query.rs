//! The parameters of a request.

/// Names and values, decoded, in their order.
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(text: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(text.unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// The first value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(is, _)| is == name).map(|(_, value)| &**value)
    }

    /// The names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    /// Whether a number other than 0 is given, as Go's handlers take `debug` and `gc`.
    pub fn is_set(&self, name: &str) -> bool {
        self.get(name).and_then(|value| value.parse::<i64>().ok()).is_some_and(|value| value != 0)
    }

    pub fn pairs(self) -> Vec<(String, String)> {
        self.0
    }
}
