//! The parser of queries.

use std::fmt;
use std::str::FromStr;

use super::{Function, Query};
use crate::QueryError;

/// Rankings are lists for people.
const RANKS_MAX: usize = 10_000;

/// A word of a query.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A bare word: a name, a number, a function.
    Word(String),
    /// A name in double quotes.
    Quoted(String),
    Sign(char),
}

impl FromStr for Query {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        let tokens = tokens(text)?;
        let no_function = || QueryError::Function { given: text.to_owned() };
        let (Some(Token::Word(name)), Some(Token::Sign('('))) = (tokens.first(), tokens.get(1))
        else {
            return Err(no_function());
        };
        let end = tokens.iter().position(|token| *token == Token::Sign(')'));
        let end = end.ok_or_else(|| QueryError::NoEnd { given: text.to_owned() })?;
        let arguments: Vec<&[Token]> =
            tokens[2..end].split(|token| *token == Token::Sign(',')).collect();
        let function = function(&name.to_lowercase(), &arguments).ok_or_else(no_function)??;
        let by = match &tokens[end + 1..] {
            [] => None,
            [Token::Word(by), column] if by.eq_ignore_ascii_case("by") => {
                Some(name_of(std::slice::from_ref(column)).ok_or_else(no_function)?)
            }
            rest => return Err(QueryError::Rest { given: in_words(rest) }),
        };
        if by.is_some() && matches!(function, Function::Top { .. }) {
            return Err(QueryError::TopBy);
        }
        Ok(Query { function, by })
    }
}

/// The function of a name; `None` for an unknown name.
fn function(name: &str, arguments: &[&[Token]]) -> Option<Result<Function, QueryError>> {
    let one = match arguments {
        [one] => name_of(one),
        _ => None,
    };
    let wrong = |function, needs| QueryError::Arguments { function, needs };
    Some(match name {
        "sum" => one.map(|column| Function::Sum { column }).ok_or(wrong("sum", "a column")),
        "avg" | "mean" => {
            one.map(|column| Function::Average { column }).ok_or(wrong("avg", "a column"))
        }
        "count" if matches!(arguments, [[Token::Sign('*')]]) => {
            Ok(Function::Count { column: None })
        }
        "count" => one
            .map(|column| Function::Count { column: Some(column) })
            .ok_or(wrong("count", "a column or *")),
        "median" => one
            .map(|column| Function::Quantile { column, rank: 0.5 })
            .ok_or(wrong("median", "a column")),
        "ratio" => two(arguments)
            .and_then(|[numerator, denominator]| {
                let (numerator, denominator) = (name_of(numerator)?, name_of(denominator)?);
                Some(Function::Ratio { numerator, denominator })
            })
            .ok_or(wrong("ratio", "two columns")),
        "quantile" => two(arguments)
            .and_then(|[column, rank]| {
                let rank: f64 = word(rank)?.parse().ok()?;
                let column = name_of(column)?;
                (rank > 0.0 && rank < 1.0).then_some(Function::Quantile { column, rank })
            })
            .ok_or(wrong("quantile", "a column and a number between 0 and 1")),
        "top" => two(arguments)
            .and_then(|[ranks, column]| {
                let ranks: usize = word(ranks)?.parse().ok()?;
                let column = name_of(column)?;
                (1..=RANKS_MAX).contains(&ranks).then_some(Function::Top { ranks, column })
            })
            .ok_or(wrong("top", "a number from 1 to 10000 and a column")),
        _ => return None,
    })
}

fn two<'a>(arguments: &[&'a [Token]]) -> Option<[&'a [Token]; 2]> {
    arguments.try_into().ok()
}

fn word(tokens: &[Token]) -> Option<&str> {
    match tokens {
        [Token::Word(word)] => Some(word),
        _ => None,
    }
}

fn name_of(tokens: &[Token]) -> Option<String> {
    match tokens {
        [Token::Word(name) | Token::Quoted(name)] => Some(name.clone()),
        _ => None,
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, QueryError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if is_sign(first) {
            tokens.push(Token::Sign(first));
            rest = &rest[first.len_utf8()..];
        } else if first == '"' {
            let (name, after) = quoted(&rest[1..]).ok_or(QueryError::Quote)?;
            tokens.push(Token::Quoted(name));
            rest = after;
        } else {
            let is_end = |c: char| is_sign(c) || c == '"' || c.is_whitespace();
            let (word, after) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
            tokens.push(Token::Word(word.to_owned()));
            rest = after;
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

fn is_sign(c: char) -> bool {
    matches!(c, '(' | ')' | ',' | '*')
}

/// A name up to its closing quote, and the text after that.
fn quoted(mut text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    loop {
        let (part, after) = text.split_once('"')?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                name.push('"');
                text = after;
            }
            None => return Some((name, after)),
        }
    }
}

fn in_words(tokens: &[Token]) -> String {
    let word = |token: &Token| match token {
        Token::Word(word) => word.clone(),
        Token::Quoted(name) => Name(name).to_string(),
        Token::Sign(sign) => sign.to_string(),
    };
    tokens.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Writes a column's name, in quotes if it needs any.
pub(super) struct Name<'a>(pub &'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_special = |c: char| is_sign(c) || c == '"' || c.is_whitespace();
        if self.0.is_empty() || self.0.eq_ignore_ascii_case("by") || self.0.contains(is_special) {
            write!(f, "\"{}\"", self.0.replace('"', "\"\""))
        } else {
            f.write_str(self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Result<Query, QueryError> {
        text.parse()
    }

    #[test]
    fn from_str__knows_each_function() {
        let column = || "a".to_owned();
        let rank = 0.9;
        for (text, function) in [
            ("sum(a)", Function::Sum { column: column() }),
            (" SUM ( a ) ", Function::Sum { column: column() }),
            ("count(*)", Function::Count { column: None }),
            ("count(a)", Function::Count { column: Some(column()) }),
            ("avg(a)", Function::Average { column: column() }),
            ("mean(\"a\")", Function::Average { column: column() }),
            ("ratio(a,b)", Function::Ratio { numerator: column(), denominator: "b".into() }),
            ("quantile(a, .9)", Function::Quantile { column: column(), rank }),
            ("median(a)", Function::Quantile { column: column(), rank: 0.5 }),
            ("top(15, a)", Function::Top { ranks: 15, column: column() }),
        ] {
            assert_eq!(parsed(text), Ok(Query { function, by: None }), "{text}");
        }
        let query = parsed("avg(\"dep delay \"\"x\"\"\") BY carrier").unwrap();
        let column = "dep delay \"x\"".to_owned();
        assert_eq!(query.function, Function::Average { column });
        assert_eq!(query.by.as_deref(), Some("carrier"));
    }

    #[test]
    fn from_str__says_what_is_wrong_in_one_sentence() {
        for (text, said) in [
            ("", "names no function"),
            ("max(a)", "names no function"),
            ("avg", "names no function"),
            ("avg(a", "has no `)`"),
            ("(a)", "names no function"),
            ("avg()", "avg needs a column"),
            ("avg(a, b)", "avg needs a column"),
            ("avg(a b)", "avg needs a column"),
            ("count()", "count needs a column or *"),
            ("ratio(a)", "ratio needs two columns"),
            ("quantile(a)", "a number between 0 and 1"),
            ("quantile(a, 1)", "a number between 0 and 1"),
            ("quantile(a, NaN)", "a number between 0 and 1"),
            ("top(0, a)", "a number from 1 to 10000"),
            ("top(a, 3)", "a number from 1 to 10000"),
            ("top(3, a) by b", "leave out `by`"),
            ("avg(a) by", "has \"by\" after its function"),
            ("avg(a) by b, c", "has \"by b , c\" after its function"),
            ("avg(a) group by b", "only `by COLUMN` may follow"),
            ("avg(\"a) by b", "has no end"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains('\n'), "{text}: {error}");
        }
    }

    fn name() -> impl Strategy<Value = String> {
        prop_oneof!["[a-z_]{1,8}", "\\PC{0,8}", Just("by".to_owned()), Just("*".to_owned())]
    }

    fn query() -> impl Strategy<Value = Query> {
        let function = prop_oneof![
            name().prop_map(|column| Function::Sum { column }),
            prop::option::of(name()).prop_map(|column| Function::Count { column }),
            name().prop_map(|column| Function::Average { column }),
            (name(), name()).prop_map(|(numerator, denominator)| {
                Function::Ratio { numerator, denominator }
            }),
            (name(), 1e-6..0.999_999)
                .prop_map(|(column, rank)| Function::Quantile { column, rank }),
            (name(), 1usize..10_000).prop_map(|(column, ranks)| Function::Top { ranks, column }),
        ];
        (function, prop::option::of(name())).prop_map(|(function, by)| {
            let by = by.filter(|_| !matches!(function, Function::Top { .. }));
            Query { function, by }
        })
    }

    proptest! {
        #[test]
        fn from_str__reads_what_display_writes(query in query()) {
            let text = query.to_string();
            prop_assert_eq!(parsed(&text), Ok(query), "{}", text);
        }

        #[test]
        fn from_str__never_panics(text in "\\PC*") {
            let _ = parsed(&text);
        }

        #[test]
        fn from_str__never_panics_on_words_of_queries(
            words in prop::collection::vec(
                prop_oneof![
                    Just("avg"), Just("top"), Just("quantile"), Just("ratio"), Just("count"),
                    Just("("), Just(")"), Just(","), Just("*"), Just("\""), Just("\"\""),
                    Just(" by "), Just("0.5"), Just("é"), Just("a"), Just("\u{a0}"),
                ],
                0..12,
            )
        ) {
            let text = words.concat();
            match parsed(&text) {
                Ok(query) => prop_assert_eq!(parsed(&query.to_string()), Ok(query)),
                Err(error) => prop_assert!(!error.to_string().contains('\n')),
            }
        }
    }
}
