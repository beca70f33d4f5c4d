//! What an expression of PromQL asks for: metrics, the labels it picks them by, the labels it groups by. Whether it is an
//! expression at all, promtool says.

use std::io::Write;

use serde_json::Value;

use crate::tools::tool;

/// Fails where promtool cannot read one of them.
pub fn assert_readable(expressions: &[String]) {
    let mut rules = tempfile::NamedTempFile::new().unwrap();
    writeln!(rules, "groups: [{{ name: all, rules: [").unwrap();
    for (number, expr) in expressions.iter().enumerate() {
        // What JSON quotes, YAML reads.
        writeln!(rules, "  {{ record: 'expression:{number}:', expr: {} }},", Value::from(expr.as_str())).unwrap();
    }
    writeln!(rules, "] }}]").unwrap();
    let output = tool("promtool").args(["check", "rules"]).arg(rules.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let all = format!("{} rules found", expressions.len());
    assert!(output.status.success() && said.contains(&all), "{said}");
}

/// One metric in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    pub metric: String,
    pub matchers: Vec<Matcher>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matcher {
    pub label: String,
    /// What it is compared with; alternatives of a pattern one by one.
    pub values: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub selectors: Vec<Selector>,
    /// The labels of `by`, `without`, `on`, `ignoring`, `group_left` and `group_right`.
    pub grouped_by: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

const GROUPING: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const OTHER_WORDS: [&str; 13] =
    ["and", "or", "unless", "bool", "offset", "sum", "max", "min", "avg", "count", "group", "topk", "inf"];

/// Reads an expression.
pub fn asked(expr: &str) -> Asked {
    let tokens = tokens(expr);
    let mut asked = Asked::default();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            // A range.
            Token::Sign('[') => at = end_of(&tokens, at, ']') + 1,
            // `group_left` may stand alone.
            Token::Word(word) if GROUPING.contains(&word.as_str()) && tokens.get(at) == Some(&Token::Sign('(')) => {
                let end = end_of(&tokens, at, ')');
                asked.grouped_by.extend(tokens[at..end].iter().filter_map(word_of));
                at = end + 1;
            }
            Token::Word(word) if GROUPING.contains(&word.as_str()) => {}
            Token::Word(word) if OTHER_WORDS.contains(&word.as_str()) => {}
            // A function.
            Token::Word(_) if tokens.get(at) == Some(&Token::Sign('(')) => {}
            Token::Word(metric) => {
                let mut matchers = Vec::new();
                if tokens.get(at) == Some(&Token::Sign('{')) {
                    let end = end_of(&tokens, at, '}');
                    matchers = self::matchers(&tokens[at + 1..end]);
                    at = end + 1;
                }
                asked.selectors.push(Selector { metric: metric.clone(), matchers });
            }
            _ => {}
        }
    }
    asked
}

/// Where what is open at `at` ends.
fn end_of(tokens: &[Token], at: usize, sign: char) -> usize {
    let length = tokens[at..].iter().position(|token| *token == Token::Sign(sign));
    at + length.unwrap_or_else(|| panic!("no {sign} in {:?}", &tokens[at..]))
}

fn matchers(tokens: &[Token]) -> Vec<Matcher> {
    let mut label = None;
    let mut found = Vec::new();
    for token in tokens {
        match token {
            Token::Word(word) => label = Some(word.clone()),
            Token::Text(text) => {
                let label = label.take().expect("a text is compared with a label");
                // Bounds of buckets are matched with and without `.0`.
                let values = text.replace("(\\.0)?", "").split('|').map(str::to_owned).collect();
                found.push(Matcher { label, values });
            }
            Token::Sign(_) => {}
        }
    }
    found
}

fn word_of(token: &Token) -> Option<String> {
    if let Token::Word(word) = token { Some(word.clone()) } else { None }
}

fn tokens(expr: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = expr;
    while let Some(first) = rest.chars().next() {
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let length = if first == '"' {
            let (text, length) = quoted(rest);
            found.push(Token::Text(text));
            length
        } else if is_of_word(first) {
            let length = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
            // Numbers and durations are nobody's name.
            if !first.is_ascii_digit() {
                found.push(Token::Word(rest[..length].to_owned()));
            }
            length
        } else {
            if !first.is_whitespace() {
                found.push(Token::Sign(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

/// A quoted text, and how long it is with its quotes.
fn quoted(rest: &str) -> (String, usize) {
    let mut text = String::new();
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\\' if !is_escaped => is_escaped = true,
            '"' if !is_escaped => return (text, at + 1),
            _ => {
                text.push(c);
                is_escaped = false;
            }
        }
    }
    panic!("a text without an end: {rest}");
}

#[test]
fn metrics_labels_and_groups_are_told_apart() {
    let found = asked(
        "sum without (pod) (rate(a:b_total{x=~\"p|q\", y!=\"z\"}[5m] offset 1d)) / on (job) group_left (v) (c > 0.5) and e{le=~\"1(\\\\.0)?\"}",
    );
    let names: Vec<&str> = found.selectors.iter().map(|selector| selector.metric.as_str()).collect();
    assert_eq!(names, ["a:b_total", "c", "e"]);
    assert_eq!(found.grouped_by, ["pod", "job", "v"]);
    let matcher = |label: &str, values: &[&str]| Matcher {
        label: label.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    assert_eq!(found.selectors[0].matchers, [matcher("x", &["p", "q"]), matcher("y", &["z"])]);
    assert_eq!(found.selectors[2].matchers, [matcher("le", &["1"])]);
}
