//! The parser of queries.

use super::names::{Name, is_sign};
use super::{Function, Query};
use crate::QueryError;

/// Rankings are lists for people.
const RANKS_MAX: usize = 10_000;
/// The most characters of a query that an error shows.
const GIVEN_CHARS_MAX: usize = 200;

/// A word of a query.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A bare word: a name, a number, a function.
    Word(String),
    /// A name in double quotes.
    Quoted(String),
    Sign(char),
}

/// An argument of a function.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Argument {
    /// A bare word: a name or a number.
    Word(String),
    /// A name in double quotes.
    Quoted(String),
    /// `distinct` and a name.
    Distinct(String),
    Star,
}

/// Parses a query such as `avg(delay) by carrier`.
pub(super) fn in_words(text: &str) -> Result<Query, QueryError> {
    let tokens = tokens(text)?;
    let no_function = || QueryError::Function { given: shortened(text) };
    let (Some(Token::Word(name)), Some(Token::Sign('('))) = (tokens.first(), tokens.get(1)) else {
        return Err(no_function());
    };
    let end = tokens.iter().position(|token| *token == Token::Sign(')'));
    let end = end.ok_or_else(|| QueryError::NoEnd { given: shortened(text) })?;
    let arguments: Option<Vec<Argument>> =
        tokens[2..end].split(|token| *token == Token::Sign(',')).map(argument).collect();
    let function = function(name, arguments.as_deref()).ok_or_else(no_function)??;
    let by = match &tokens[end + 1..] {
        [] => Vec::new(),
        rest => columns(rest).ok_or_else(|| QueryError::Rest { given: shortened(&words(rest)) })?,
    };
    Ok(Query { functions: vec![function], filter: None, by })
}

/// The columns after `by`; `None` if that isn't all.
fn columns(tokens: &[Token]) -> Option<Vec<String>> {
    let [Token::Word(by), columns @ ..] = tokens else { return None };
    let name = |tokens: &[Token]| match tokens {
        [Token::Word(name) | Token::Quoted(name)] => Some(name.clone()),
        _ => None,
    };
    let mut columns = columns.split(|token| *token == Token::Sign(','));
    columns
        .by_ref()
        .filter(|_| by.eq_ignore_ascii_case("by"))
        .map(name)
        .collect::<Option<Vec<_>>>()
        .filter(|columns| !columns.is_empty())
}

fn argument(tokens: &[Token]) -> Option<Argument> {
    match tokens {
        [Token::Word(word)] => Some(Argument::Word(word.clone())),
        [Token::Quoted(name)] => Some(Argument::Quoted(name.clone())),
        [Token::Sign('*')] => Some(Argument::Star),
        [Token::Word(distinct), Token::Word(name) | Token::Quoted(name)]
            if distinct.eq_ignore_ascii_case("distinct") =>
        {
            Some(Argument::Distinct(name.clone()))
        }
        _ => None,
    }
}

/// The function of a name; `None` for an unknown name. `arguments` are `None` if one of them is
/// neither a name nor a number.
pub(super) fn function(
    name: &str,
    arguments: Option<&[Argument]>,
) -> Option<Result<Function, QueryError>> {
    let arguments = arguments.unwrap_or_default();
    let one = match arguments {
        [one] => one.name(),
        _ => None,
    };
    let of_column = |function, made: fn(String) -> Function| {
        one.clone().map(made).ok_or(QueryError::Arguments { function, needs: "a column" })
    };
    let wrong = |function, needs| QueryError::Arguments { function, needs };
    Some(match &*name.to_lowercase() {
        "sum" => of_column("sum", |column| Function::Sum { column }),
        "avg" | "mean" => of_column("avg", |column| Function::Average { column }),
        "count" => match arguments {
            [Argument::Star] => Ok(Function::Count { column: None }),
            [Argument::Distinct(column)] => Ok(Function::Distinct { column: column.clone() }),
            _ => one
                .map(|column| Function::Count { column: Some(column) })
                .ok_or(wrong("count", "a column or *")),
        },
        "stddev" | "std" | "stddev_samp" => {
            of_column("stddev", |column| Function::Deviation { column })
        }
        "variance" | "var" | "var_samp" => {
            of_column("variance", |column| Function::Variance { column })
        }
        "min" => of_column("min", |column| Function::Minimum { column }),
        "max" => of_column("max", |column| Function::Maximum { column }),
        "median" => of_column("median", |column| Function::Quantile { column, rank: 0.5 }),
        "ratio" => match arguments {
            [numerator, denominator] => {
                let names = numerator.name().zip(denominator.name());
                names.map(|(numerator, denominator)| Function::Ratio { numerator, denominator })
            }
            _ => None,
        }
        .ok_or(wrong("ratio", "two columns")),
        "quantile" => match arguments {
            [column, Argument::Word(rank)] => {
                let rank: Option<f64> = rank.parse().ok().filter(|rank| *rank > 0.0 && *rank < 1.0);
                column.name().zip(rank).map(|(column, rank)| Function::Quantile { column, rank })
            }
            _ => None,
        }
        .ok_or(wrong("quantile", "a column and a number between 0 and 1")),
        "top" => match arguments {
            [Argument::Word(ranks), column] => {
                let ranks: Option<usize> =
                    ranks.parse().ok().filter(|ranks| (1..=RANKS_MAX).contains(ranks));
                ranks.zip(column.name()).map(|(ranks, column)| Function::Top { ranks, column })
            }
            _ => None,
        }
        .ok_or(wrong("top", "a number from 1 to 10000 and a column")),
        _ => return None,
    })
}

impl Argument {
    fn name(&self) -> Option<String> {
        match self {
            Self::Word(name) | Self::Quoted(name) => Some(name.clone()),
            Self::Distinct(_) | Self::Star => None,
        }
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

fn words(tokens: &[Token]) -> String {
    let word = |token: &Token| match token {
        Token::Word(word) => word.clone(),
        Token::Quoted(name) => Name(name).to_string(),
        Token::Sign(sign) => sign.to_string(),
    };
    tokens.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A part of the query, for an error: of one line.
pub(super) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(GIVEN_CHARS_MAX).collect();
    short.push_str(if short.len() < text.len() { "…" } else { "" });
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Comparison, Condition, Literal};
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
            assert_eq!(
                parsed(text),
                Ok(Query { functions: vec![function], filter: None, by: vec![] }),
                "{text}"
            );
        }
        let query = parsed("avg(\"dep delay \"\"x\"\"\") BY carrier").unwrap();
        let column = "dep delay \"x\"".to_owned();
        assert_eq!(query.functions, [Function::Average { column }]);
        assert_eq!(query.by, ["carrier"]);
    }

    #[test]
    fn from_str__knows_sql() {
        let query = |functions: &[Function], filter: Option<Condition>, by: &[&str]| {
            let by = by.iter().map(|by| (*by).to_owned()).collect();
            Ok(Query { functions: functions.to_vec(), filter, by })
        };
        let (a, all) = (|| "a".to_owned(), Function::Count { column: None });
        let mean = Function::Average { column: a() };
        let is = |comparison, number| Condition::Compare {
            column: a(),
            comparison,
            with: Literal::Number(number),
        };
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let (one, both) = (std::slice::from_ref(&mean), [mean.clone(), all]);
        for (text, expected) in [
            ("SELECT avg(a), COUNT(*)", query(&both, None, &[])),
            ("select AVG(\"a\") , count ( * ) from t ;", query(&both, None, &[])),
            (
                "SELECT b, avg(a), count(*) FROM \"t t\" GROUP BY b, c",
                query(&both, None, &["b", "c"]),
            ),
            ("avg(a) by b, \"c d\"", query(one, None, &["b", "c d"])),
            ("SELECT avg(a) WHERE a > -3", query(one, Some(is(Greater, -3.0)), &[])),
            ("SELECT avg(a) WHERE 3 > a", query(one, Some(is(Less, 3.0)), &[])),
            ("SELECT avg(a) WHERE 3 != a", query(one, Some(is(NotEqual, 3.0)), &[])),
            ("SELECT count(DISTINCT a)", query(&[Function::Distinct { column: a() }], None, &[])),
            (
                "SELECT top(3, a) WHERE a BETWEEN 1 AND 2e0",
                query(
                    &[Function::Top { ranks: 3, column: a() }],
                    Some(Condition::And(vec![is(GreaterOrEqual, 1.0), is(LessOrEqual, 2.0)])),
                    &[],
                ),
            ),
            (
                "SELECT avg(a) WHERE a = 1 OR a = 2 OR NOT (a = 3 AND a < 4)",
                query(
                    one,
                    Some(Condition::Or(vec![
                        is(Equal, 1.0),
                        is(Equal, 2.0),
                        Condition::Not(Box::new(Condition::And(vec![
                            is(Equal, 3.0),
                            is(Less, 4.0),
                        ]))),
                    ])),
                    &[],
                ),
            ),
            (
                "SELECT avg(a) WHERE a NOT IN ('x', 'it''s')",
                query(
                    one,
                    Some(Condition::Not(Box::new(Condition::In {
                        column: a(),
                        values: vec![Literal::Text("x".into()), Literal::Text("it's".into())],
                    }))),
                    &[],
                ),
            ),
            (
                "SELECT avg(a) WHERE a IS NOT NULL",
                query(one, Some(Condition::Not(Box::new(Condition::IsNull { column: a() }))), &[]),
            ),
            (
                "SELECT avg(a) WHERE a LIKE 'x%'",
                query(one, Some(Condition::Like { column: a(), pattern: "x%".into() }), &[]),
            ),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn from_str__names_the_clause_that_has_no_answer() {
        for (text, said) in [
            ("SELECT", "names no function"),
            ("SELECT a", "the column \"a\" outside of GROUP BY"),
            ("SELECT *", "SELECT * isn't supported"),
            ("SELECT avg(a) AS mean", "AS isn't supported"),
            ("SELECT avg(a) + 1", "an expression in SELECT"),
            ("SELECT avg(a + 1)", "an expression in a function"),
            ("SELECT sqrt(a)", "names no function"),
            ("SELECT sum(DISTINCT a)", "DISTINCT in sum"),
            ("SELECT DISTINCT avg(a)", "SELECT DISTINCT"),
            ("SELECT avg(a) OVER ()", "OVER"),
            ("SELECT avg(a) FILTER (WHERE a > 1)", "FILTER"),
            ("SELECT avg(a) FROM t JOIN u ON t.a = u.a", "JOIN"),
            ("SELECT avg(a) FROM t, u", "JOIN"),
            ("SELECT avg(a) FROM (SELECT a FROM t)", "a subquery"),
            ("SELECT avg(a) WHERE a IN (SELECT a FROM t)", "a subquery"),
            ("SELECT avg(a) GROUP BY b HAVING avg(a) > 1", "HAVING"),
            ("SELECT avg(a) GROUP BY ROLLUP (b)", "an expression in GROUP BY"),
            ("SELECT avg(a) GROUP BY t.b", "a table's name before a column in GROUP BY"),
            ("SELECT avg(a) ORDER BY a", "ORDER BY"),
            ("SELECT avg(a) LIMIT 3", "LIMIT"),
            ("SELECT avg(a) UNION SELECT avg(b)", "UNION"),
            ("SELECT avg(a) WHERE b", "the column \"b\" without a comparison"),
            ("SELECT avg(a) WHERE a = b", "a comparison of two columns"),
            ("SELECT avg(a) WHERE a = \"b\"", "write 'b' for a text"),
            ("SELECT avg(a) WHERE a = NULL", "IS NULL"),
            ("SELECT avg(a) WHERE a + 1 > 2", "an expression in WHERE"),
            ("SELECT avg(a) WHERE a > 1e999", "the number 1e999"),
            ("SELECT avg(a) WHERE a ILIKE 'x'", "ILIKE"),
            ("SELECT avg(a) WHERE", "isn't SQL"),
            ("SELECT avg(a) WHERE a = 'x", "isn't SQL"),
            ("SELECT top(3, a), avg(a)", "stands alone"),
            ("SELECT avg(a); SELECT avg(b)", "a second statement"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains('\n'), "{text}: {error}");
        }
    }

    /// Long chains and deep nesting are refused before they take the stack.
    #[test]
    fn from_str__limits_its_depth_and_length() {
        let repeated = |one: &str, times: usize, last: &str| {
            format!("SELECT avg(a) WHERE {}{last}", one.repeat(times))
        };
        for times in [200, 2_000, 20_000, 200_000] {
            for (one, last) in
                [("a=1 OR ", "a=1"), ("NOT ", "a=1"), ("(", "a=1"), ("1+", "1>a"), ("- ", "1>a")]
            {
                let found = parsed(&repeated(one, times, last));
                assert_eq!(found.is_ok(), one == "a=1 OR " && times == 200, "{one} {times}");
                let error = found.err().map(|error| error.to_string()).unwrap_or_default();
                assert!(error.len() < 500, "{error}");
            }
        }
        let list = |values: usize| repeated("1,", values, "1)").replace("WHERE ", "WHERE a IN (");
        assert!(parsed(&list(399)).is_ok() && parsed(&list(400)).is_err());
        let functions = |times: usize| format!("SELECT {}avg(a)", "avg(a),".repeat(times));
        assert!(parsed(&functions(15)).is_ok() && parsed(&functions(16)).is_err());
        assert!(parsed("avg(a) by a,b,c,d,e,f,g,h").is_ok());
        assert!(parsed("avg(a) by a,b,c,d,e,f,g,h,i").is_err());
    }

    #[test]
    fn from_str__says_what_is_wrong_in_one_sentence() {
        for (text, said) in [
            ("", "names no function"),
            ("max", "names no function"),
            ("sqrt(a)", "names no function"),
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
            ("avg(a) by b,", "has \"by b ,\" after its function"),
            ("avg(a) group by b", "only `by COLUMN` may follow"),
            ("avg(\"a) by b", "has no end"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains('\n'), "{text}: {error}");
        }
    }

    fn name() -> impl Strategy<Value = String> {
        let words =
            prop::sample::select(vec!["by", "*", "distinct", "select", "Null", "value", "1"]);
        prop_oneof!["[a-z_]{1,8}", "\\PC{0,8}", words.prop_map(str::to_owned)]
    }

    fn function() -> impl Strategy<Value = Function> {
        let of_column = (name(), 0..8).prop_map(|(column, which)| match which {
            0 => Function::Sum { column },
            1 => Function::Average { column },
            2 => Function::Deviation { column },
            3 => Function::Variance { column },
            4 => Function::Minimum { column },
            5 => Function::Maximum { column },
            6 => Function::Distinct { column },
            _ => Function::Count { column: Some(column) },
        });
        prop_oneof![
            8 => of_column,
            1 => Just(Function::Count { column: None }),
            1 => (name(), name()).prop_map(|(numerator, denominator)| {
                Function::Ratio { numerator, denominator }
            }),
            1 => (name(), 1e-6..0.999_999)
                .prop_map(|(column, rank)| Function::Quantile { column, rank }),
        ]
    }

    fn literal() -> impl Strategy<Value = Literal> {
        prop_oneof![
            "\\PC{0,6}".prop_map(Literal::Text),
            any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Literal::Number),
            (-20i32..20).prop_map(|number| Literal::Number(f64::from(number))),
        ]
    }

    fn condition() -> impl Strategy<Value = Condition> {
        let comparison = prop::sample::select(vec![
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Greater,
            Comparison::GreaterOrEqual,
        ]);
        let leaf = prop_oneof![
            (name(), comparison, literal()).prop_map(|(column, comparison, with)| {
                Condition::Compare { column, comparison, with }
            }),
            (name(), prop::collection::vec(literal(), 1..4))
                .prop_map(|(column, values)| Condition::In { column, values }),
            (name(), "[a%_']{0,4}")
                .prop_map(|(column, pattern)| Condition::Like { column, pattern }),
            name().prop_map(|column| Condition::IsNull { column }),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let several = || prop::collection::vec(inner.clone(), 2..4);
            prop_oneof![
                several().prop_map(Condition::And),
                several().prop_map(Condition::Or),
                inner.clone().prop_map(|one| Condition::Not(Box::new(one))),
            ]
        })
    }

    fn query() -> impl Strategy<Value = Query> {
        let by = prop::collection::vec(name(), 0..4);
        let filter = || prop::option::of(condition());
        let functions = prop::collection::vec(function(), 1..4);
        let top = (name(), 1usize..10_000)
            .prop_map(|(column, ranks)| vec![Function::Top { ranks, column }]);
        prop_oneof![
            4 => (functions, filter(), by)
                .prop_map(|(functions, filter, by)| Query { functions, filter, by }),
            1 => (top, filter())
                .prop_map(|(functions, filter)| Query { functions, filter, by: vec![] }),
        ]
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
                    Just(" by "), Just("select "), Just(" where "), Just(" and "), Just(" not "),
                    Just(" group by "), Just("="), Just("<"), Just("'"), Just(" in "), Just(" is "),
                    Just(" null "), Just(" like "), Just(" from "), Just("-"), Just("0.5"), Just("é"), Just("a"), Just("\u{a0}"),
                ],
                0..16,
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
