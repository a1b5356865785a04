//! Conditions of `WHERE`, with the three-valued logic of SQL.

use std::cmp::Ordering;
use std::fmt;
use std::ops::RangeInclusive;

use super::names::SqlName;
use crate::QueryError;

/// The deepest nesting of `NOT`, `AND` and `OR`.
pub(super) const DEPTH_MAX: usize = 32;
/// The most comparisons of a condition, and the most values of a list.
pub(super) const COMPARISONS_MAX: usize = 400;

/// Numbers that aren't written with an exponent.
const PLAIN: RangeInclusive<f64> = 1e-6..=1e15;

/// A condition on the rows of a table. `C` names its columns.
///
/// A comparison with a missing value is neither true nor false, and so is its negation. The query
/// takes the rows for which the condition is true.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Condition<C = String> {
    /// A column compared with a value.
    Compare {
        /// The column.
        column: C,
        /// The comparison.
        comparison: Comparison,
        /// The value on the right.
        with: Literal,
    },
    /// A column with one of these values.
    In {
        /// The column.
        column: C,
        /// The values.
        values: Vec<Literal>,
    },
    /// A column of text that matches a pattern: `%` stands for any text, and `_` for a character.
    Like {
        /// The column.
        column: C,
        /// The pattern.
        pattern: String,
    },
    /// A column without a value.
    IsNull {
        /// The column.
        column: C,
    },
    /// The opposite of a condition.
    Not(Box<Self>),
    /// All of these conditions.
    And(Vec<Self>),
    /// At least one of these conditions.
    Or(Vec<Self>),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A value that a column is compared with. It decides what the column holds: numbers, or text.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// A finite number.
    Number(f64),
    /// A text, compared letter by letter.
    Text(String),
}

/// The values of a row, for a condition on columns `C`.
pub(super) trait Values<C> {
    /// The number in a column; `None` if it is missing.
    fn number(&self, column: &C) -> Result<Option<f64>, QueryError>;
    /// The text in a column; `None` if it is empty.
    fn text(&self, column: &C) -> Option<&str>;
    /// Whether a column has no value.
    fn is_null(&self, column: &C) -> bool;
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl Literal {
    /// How a column's value compares with this one; `None` if it is missing.
    fn order<C>(&self, column: &C, row: &impl Values<C>) -> Result<Option<Ordering>, QueryError> {
        Ok(match self {
            Self::Number(with) => row.number(column)?.and_then(|own| own.partial_cmp(with)),
            Self::Text(with) => row.text(column).map(|own| own.cmp(with)),
        })
    }
}

impl<C> Condition<C> {
    /// Whether the condition is true of a row; `None` if missing values leave that open.
    ///
    /// # Errors
    /// A column that is compared with a number holds text.
    pub(super) fn holds(&self, row: &impl Values<C>) -> Result<Option<bool>, QueryError> {
        Ok(match self {
            Self::Compare { column, comparison, with } => {
                with.order(column, row)?.map(|order| comparison.holds(order))
            }
            Self::In { column, values } => {
                let mut is_known = true;
                for value in values {
                    match value.order(column, row)? {
                        Some(Ordering::Equal) => return Ok(Some(true)),
                        found => is_known &= found.is_some(),
                    }
                }
                is_known.then_some(false)
            }
            Self::Like { column, pattern } => row.text(column).map(|own| is_like(own, pattern)),
            Self::IsNull { column } => Some(row.is_null(column)),
            Self::Not(of) => of.holds(row)?.map(|holds| !holds),
            Self::And(all) => joined(all, row, false)?,
            Self::Or(all) => joined(all, row, true)?,
        })
    }

    /// The condition with the columns that `find` finds.
    pub(super) fn with_columns<D>(
        &self,
        find: &mut impl FnMut(&C) -> Result<D, QueryError>,
        depth: usize,
    ) -> Result<Condition<D>, QueryError> {
        if depth > DEPTH_MAX {
            return Err(QueryError::TooLong { what: "levels of a condition", most: DEPTH_MAX });
        }
        let mut all = |of: &[Self]| {
            of.iter().map(|one| one.with_columns(find, depth + 1)).collect::<Result<_, _>>()
        };
        Ok(match self {
            Self::And(of) => Condition::And(all(of)?),
            Self::Or(of) => Condition::Or(all(of)?),
            Self::Not(of) => Condition::Not(Box::new(of.with_columns(find, depth + 1)?)),
            Self::Compare { column, comparison, with } => Condition::Compare {
                column: find(column)?,
                comparison: *comparison,
                with: with.clone(),
            },
            Self::In { column, values } => {
                Condition::In { column: find(column)?, values: values.clone() }
            }
            Self::Like { column, pattern } => {
                Condition::Like { column: find(column)?, pattern: pattern.clone() }
            }
            Self::IsNull { column } => Condition::IsNull { column: find(column)? },
        })
    }
}

/// `AND` ends at the first condition that is false, and `OR` at the first that is true.
fn joined<C>(
    all: &[Condition<C>],
    row: &impl Values<C>,
    end: bool,
) -> Result<Option<bool>, QueryError> {
    let mut is_known = true;
    for one in all {
        match one.holds(row)? {
            Some(holds) if holds == end => return Ok(Some(end)),
            found => is_known &= found.is_some(),
        }
    }
    Ok(is_known.then_some(!end))
}

/// Whether a text matches a pattern of `LIKE`. Of several `%` only the last one is tried again, so
/// the time is at most the product of both lengths.
fn is_like(text: &str, pattern: &str) -> bool {
    let (mut text, mut pattern) = (text.chars(), pattern.chars());
    let mut again = None;
    loop {
        let rest = text.clone();
        match (pattern.next(), text.next()) {
            (Some('%'), _) => {
                text = rest.clone();
                again = Some((rest, pattern.clone()));
            }
            (Some('_'), Some(_)) => {}
            (Some(wanted), Some(found)) if wanted == found => {}
            (None, None) => return true,
            _ => {
                let Some((from, after)) = &mut again else { return false };
                if from.next().is_none() {
                    return false;
                }
                (text, pattern) = (from.clone(), after.clone());
            }
        }
    }
}

/// Writes the condition as SQL that parses to the same.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, all: &[Self], word: &str| {
            for (at, one) in all.iter().enumerate() {
                f.write_str(if at > 0 { word } else { "" })?;
                match one {
                    Self::And(_) | Self::Or(_) => write!(f, "({one})")?,
                    _ => one.fmt(f)?,
                }
            }
            Ok(())
        };
        match self {
            Self::Compare { column, comparison, with } => {
                write!(f, "{} {} {with}", SqlName(column), comparison.sign())
            }
            Self::In { column, values } => {
                write!(f, "{} IN (", SqlName(column))?;
                for (at, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            Self::Like { column, pattern } => {
                write!(f, "{} LIKE {}", SqlName(column), SqlText(pattern))
            }
            Self::IsNull { column } => write!(f, "{} IS NULL", SqlName(column)),
            Self::Not(of) => match &**of {
                Self::IsNull { column } => write!(f, "{} IS NOT NULL", SqlName(column)),
                of => write!(f, "NOT ({of})"),
            },
            Self::And(all) => list(f, all, " AND "),
            Self::Or(all) => list(f, all, " OR "),
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) if *number == 0.0 || PLAIN.contains(&number.abs()) => {
                write!(f, "{number}")
            }
            Self::Number(number) => write!(f, "{number:e}"),
            Self::Text(text) => SqlText(text).fmt(f),
        }
    }
}

/// Writes a text in single quotes.
struct SqlText<'a>(&'a str);

impl fmt::Display for SqlText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.replace('\'', "''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn is_like__knows_the_signs_of_sql() {
        for (text, pattern, expected) in [
            ("", "", true),
            ("", "%", true),
            ("", "_", false),
            ("UA", "UA", true),
            ("UA", "ua", false),
            ("UA", "U_", true),
            ("UA", "U__", false),
            ("O'Hare", "%are", true),
            ("O'Hare", "O%", true),
            ("abcabd", "%ab_", true),
            ("abcabd", "%abc", false),
            ("aXbYc", "a%b%c", true),
            ("größer", "gr_ß%", true),
        ] {
            assert_eq!(is_like(text, pattern), expected, "{text} LIKE {pattern}");
        }
    }

    /// By the definition: `%` is any number of characters.
    fn by_definition(text: &[char], pattern: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => (0..=text.len()).any(|at| by_definition(&text[at..], rest)),
            ['_', rest @ ..] => !text.is_empty() && by_definition(&text[1..], rest),
            [wanted, rest @ ..] => text.first() == Some(wanted) && by_definition(&text[1..], rest),
        }
    }

    proptest! {
        #[test]
        fn is_like__agrees_with_the_definition(text in "[ab]{0,8}", pattern in "[ab%_]{0,6}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = by_definition(&chars(&text), &chars(&pattern));
            prop_assert_eq!(is_like(&text, &pattern), expected);
        }
    }

    /// `x` is missing, `t` is true and `f` false in these rows.
    struct Facts;

    impl Values<char> for Facts {
        fn number(&self, column: &char) -> Result<Option<f64>, QueryError> {
            Ok(match column {
                't' => Some(1.0),
                'f' => Some(0.0),
                _ => None,
            })
        }

        fn text(&self, _: &char) -> Option<&str> {
            None
        }

        fn is_null(&self, column: &char) -> bool {
            *column == 'x'
        }
    }

    /// The truth tables of SQL.
    #[test]
    fn holds__has_three_values() {
        let is = |column: char| Condition::Compare {
            column,
            comparison: Comparison::Equal,
            with: Literal::Number(1.0),
        };
        let (yes, no, open) = (Some(true), Some(false), None);
        let holds = |condition: Condition<char>| condition.holds(&Facts).unwrap();
        for (one, other, and, or) in [
            ('t', 't', yes, yes),
            ('t', 'f', no, yes),
            ('t', 'x', open, yes),
            ('f', 'f', no, no),
            ('f', 'x', no, open),
            ('x', 'x', open, open),
        ] {
            for (one, other) in [(one, other), (other, one)] {
                assert_eq!(holds(Condition::And(vec![is(one), is(other)])), and, "{one}{other}");
                assert_eq!(holds(Condition::Or(vec![is(one), is(other)])), or, "{one}{other}");
            }
        }
        for (column, opposite) in [('t', no), ('f', yes), ('x', open)] {
            assert_eq!(holds(Condition::Not(Box::new(is(column)))), opposite);
        }
        let list = |column, values: &[f64]| Condition::In {
            column,
            values: values.iter().copied().map(Literal::Number).collect(),
        };
        assert_eq!(holds(list('t', &[3.0, 1.0])), yes);
        assert_eq!(holds(list('t', &[3.0])), no);
        assert_eq!(holds(list('x', &[3.0])), open);
        assert_eq!(holds(Condition::IsNull { column: 'x' }), yes);
    }
}
