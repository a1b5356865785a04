//! The class `Planner`.

use super::{
    errors::{cause, raise},
    estimate::Estimate,
    input::{Level, Messages, Stratum, share},
};
use crate::{
    arguments::{integer, number, shown},
    types::object,
};
use approx_answers::{AcceptedError, Action, AnswerError, Confidence};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};
use std::cell::RefCell;

/// Turns an accepted error into requests to the senders of a job.
#[pyclass(module = "atp.answers")]
pub struct Planner(approx_answers::Planner);

fn action(py: Python<'_>, action: Action) -> PyResult<Option<Bound<'_, PyAny>>> {
    let action = match action {
        Action::Raise { stratum, msr } => {
            object!(py, "atp._answers", "Raise" { stratum: stratum, msr: msr })
        }
        Action::Lower { stratum, msr } => {
            object!(py, "atp._answers", "Lower" { stratum: stratum, msr: msr })
        }
        Action::End => object!(py, "atp._answers", "End" {}),
        Action::Wait { messages } => object!(py, "atp._answers", "Wait" { messages: messages }),
        // Of a newer approx-answers.
        _ => return Ok(None),
    };
    action.map(Some)
}

/// The estimates that Python computes for a look.
fn ask(ask: &Bound<'_, PyAny>, confidence: Confidence) -> PyResult<Vec<approx_answers::Estimate>> {
    let answers = ask.call1((confidence.level(),))?;
    let estimates = answers.extract::<Vec<Estimate>>().map_err(|_| {
        let shown = shown(&answers);
        PyTypeError::new_err(format!("a look must return a list of Estimate, not {shown}"))
    })?;
    Ok(estimates.into_iter().map(|estimate| estimate.0).collect())
}

#[pymethods]
impl Planner {
    #[new]
    #[pyo3(signature = (
        *, relative = None, absolute = None, confidence = Level(Confidence::P95), sources = None
    ))]
    fn new(
        py: Python<'_>,
        relative: Option<&Bound<'_, PyAny>>,
        absolute: Option<&Bound<'_, PyAny>>,
        confidence: Level,
        sources: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let accepted = match (relative, absolute) {
            (Some(error), None) => AcceptedError::relative(number("relative", error)?),
            (None, Some(error)) => AcceptedError::absolute(number("absolute", error)?),
            _ => {
                let text =
                    "give one accepted error: relative=0.05, or absolute= in the answer's unit";
                return Err(PyTypeError::new_err(text));
            }
        };
        let accepted = accepted.map_err(|error| raise(py, error))?;
        let sources = sources.map(|sources| integer("sources", sources, u32::MAX.into()));
        let sources = sources.transpose()?.unwrap_or(0) as usize;
        Ok(Self(approx_answers::Planner::new(accepted, confidence.0).with_sources(sources)))
    }

    fn source_started<'py>(
        &mut self,
        py: Python<'py>,
        stratum: Stratum,
        msr: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let first = self.0.source_started(stratum.0, share("msr", msr)?);
        first.map_or(Ok(None), |first| action(py, first))
    }

    fn source_heard(&mut self, stratum: Stratum) {
        self.0.source_heard(stratum.0);
    }

    fn source_ending(&mut self, stratum: Stratum) {
        self.0.source_ending(stratum.0);
    }

    fn source_ended(&mut self, stratum: Stratum) {
        self.0.source_ended(stratum.0);
    }

    fn is_look_due(&self, messages: Messages) -> bool {
        self.0.is_look_due(messages.0)
    }

    fn look<'py>(&mut self, ask: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let py = ask.py();
        let raised = RefCell::new(None);
        let actions = self.0.look(|confidence| {
            self::ask(ask, confidence).map_err(|error| {
                // An exception of Python's own ends the look.
                let known = cause(py, &error);
                *raised.borrow_mut() = Some(error);
                known.unwrap_or(AnswerError::Overflow { what: "answer" })
            })
        });
        let actions = actions.map_err(|error| match raised.take() {
            Some(raised) => raised,
            None => raise(py, error),
        })?;
        let actions: Vec<_> =
            actions.into_iter().filter_map(|one| action(py, one).transpose()).collect();
        PyList::new(py, actions.into_iter().collect::<PyResult<Vec<_>>>()?)
    }

    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(report) = self.0.report() else { return Ok(None) };
        let estimates: Vec<_> = report.estimates.iter().cloned().map(Estimate).collect();
        let made = object!(py, "atp._answers", "Report" {
            is_met: report.is_met(),
            reached: report.reached,
            because: report.because.map(|because| because.to_string()),
            estimates: PyTuple::new(py, estimates)?,
            looks: report.looks,
            text: report.to_string(),
        });
        made.map(Some)
    }
}
