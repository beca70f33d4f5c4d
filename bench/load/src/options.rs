//! `--name value`, and nothing else. A name that nobody asks for is a mistake, so each command says which it knows.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use crate::Trouble;

pub struct Options {
    given: Vec<(String, String)>,
}

impl Options {
    pub fn read(mut words: impl Iterator<Item = String>) -> Result<Self, Trouble> {
        let mut given = Vec::new();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or_else(|| format!("expected an option, not {word:?}"))?;
            let value = words.next().ok_or_else(|| format!("--{name} needs a value"))?;
            given.push((name.to_owned(), value));
        }
        Ok(Self { given })
    }

    /// Refuses every name but these.
    pub fn only(&self, known: &[&str]) -> Result<(), Trouble> {
        match self.given.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => Err(format!("there is no --{name} here; known are {}", known.join(", ")).into()),
            None => Ok(()),
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    pub fn required(&self, name: &str) -> Result<&str, Trouble> {
        self.text(name).ok_or_else(|| format!("--{name} is needed").into())
    }

    pub fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T, Trouble> {
        let Some(text) = self.text(name) else { return Ok(default) };
        text.parse().map_err(|_| format!("--{name} is not a number: {text:?}").into())
    }

    pub fn addresses(&self, name: &str) -> Result<Vec<SocketAddr>, Trouble> {
        let parsed = self.required(name)?.split(',').map(str::parse).collect::<Result<Vec<_>, _>>();
        parsed.map_err(|error| format!("--{name}: {error}; write it as 127.0.0.1:8080").into())
    }

    pub fn duration(&self, name: &str) -> Result<Duration, Trouble> {
        let text = self.required(name)?;
        parse_duration(text).ok_or_else(|| format!("--{name} is no time: {text:?}; write it as 250us, 1ms or 2s").into())
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    match unit {
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Options {
        Options::read(text.split(' ').map(str::to_owned)).unwrap()
    }

    #[test]
    fn the_last_of_two_values_counts_and_an_absent_one_is_the_default() {
        let options = options("--rate 10 --rate 20");
        assert_eq!(options.number("rate", 1).unwrap(), 20);
        assert_eq!(options.number("seconds", 5).unwrap(), 5);
    }

    #[test]
    fn a_name_that_nobody_knows_is_refused() {
        assert!(options("--rate 10").only(&["rate"]).is_ok());
        assert!(options("--rates 10").only(&["rate"]).is_err());
    }

    #[test]
    fn durations_carry_their_unit() {
        assert_eq!(parse_duration("250us"), Some(Duration::from_micros(250)));
        assert_eq!(parse_duration("1ms"), Some(Duration::from_millis(1)));
        assert_eq!(parse_duration("2s"), Some(Duration::from_secs(2)));
        assert_eq!(parse_duration("2"), None);
        assert_eq!(parse_duration("ms"), None);
    }
}
