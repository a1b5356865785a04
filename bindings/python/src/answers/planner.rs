//! The class `Planner`.

use super::{
    answering::{self, Answering},
    errors::{cause, raise},
    estimate::Estimate,
    input::{Level, Messages, Stratum, share},
    locked::Locked,
    plan::{Change, Plan},
};
use crate::{
    arguments::{integer, number, shown, truth},
    stub::stub,
    types::object,
};
use approx_answers::{AcceptedError, Action, AnswerError, Confidence};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};
use std::cell::RefCell;

#[doc = stub!(Planner)]
#[pyclass(frozen, module = "atp.answers")]
pub struct Planner(Locked<Plan>);

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

fn actions(py: Python<'_>, actions: Vec<Action>) -> PyResult<Bound<'_, PyList>> {
    let made = actions.into_iter().filter_map(|one| action(py, one).transpose());
    PyList::new(py, made.collect::<PyResult<Vec<_>>>()?)
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

/// A report, as Python has it.
pub fn plan_report(py: Python<'_>, report: approx_answers::Report) -> PyResult<Bound<'_, PyAny>> {
    let text = report.to_string();
    let (is_met, level) = (report.is_met(), report.level.level());
    let estimates: Vec<_> = report.estimates.into_iter().map(Estimate).collect();
    object!(py, "atp._answers", "Report" {
        is_met: is_met,
        reached: report.reached,
        because: report.because.map(|because| because.to_string()),
        estimates: PyTuple::new(py, estimates)?,
        level: level,
        looks: report.looks,
        text: text,
    })
}

impl Planner {
    fn planner(&self) -> approx_answers::Planner {
        self.0.lock().planner().clone()
    }
}

#[pymethods]
impl Planner {
    #[new]
    #[pyo3(signature = (
        *, relative = None, absolute = None, confidence = Level(Confidence::P95), sources = None,
        end_in_doubt = None
    ))]
    fn new(
        py: Python<'_>,
        relative: Option<&Bound<'_, PyAny>>,
        absolute: Option<&Bound<'_, PyAny>>,
        confidence: Level,
        sources: Option<&Bound<'_, PyAny>>,
        end_in_doubt: Option<&Bound<'_, PyAny>>,
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
        let in_doubt = end_in_doubt.map(|on| truth("end_in_doubt", on)).transpose()?;
        let planner = approx_answers::Planner::new(accepted, confidence.0)
            .with_sources(sources)
            .end_in_doubt(in_doubt.unwrap_or(false));
        Ok(Self(Locked::new(Plan::new(planner))))
    }

    #[doc = stub!(Planner.source_started)]
    fn source_started<'py>(
        &self,
        py: Python<'py>,
        stratum: Stratum,
        msr: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let started = Change::Started { stratum: stratum.0, msr: share("msr", msr)? };
        let first = self.0.lock().change(started);
        first.map_or(Ok(None), |first| action(py, first))
    }

    #[doc = stub!(Planner.source_known)]
    fn source_known(&self, stratum: Stratum) {
        self.0.lock().change(Change::Known { stratum: stratum.0 });
    }

    #[doc = stub!(Planner.source_ending)]
    fn source_ending(&self, stratum: Stratum) {
        self.0.lock().change(Change::Ending { stratum: stratum.0 });
    }

    #[doc = stub!(Planner.source_ended)]
    fn source_ended(&self, stratum: Stratum) {
        self.0.lock().change(Change::Ended { stratum: stratum.0 });
    }

    #[doc = stub!(Planner.is_look_due)]
    fn is_look_due(&self, messages: Messages) -> bool {
        self.0.lock().is_look_due(messages.0)
    }

    #[doc = stub!(Planner.look)]
    fn look<'py>(&self, ask: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let py = ask.py();
        // Python computes the answers: not under the lock.
        let begun = self.0.lock().begin_look();
        let Some(mut planner) = begun else { return actions(py, Vec::new()) };
        let raised = RefCell::new(None);
        let looked = planner.look(|confidence| {
            self::ask(ask, confidence).map_err(|error| {
                // An exception of Python's own ends the look.
                let known = cause(py, &error);
                *raised.borrow_mut() = Some(error);
                known.unwrap_or(AnswerError::Overflow { what: "answer" })
            })
        });
        self.0.lock().end_look(planner);
        let looked = looked.map_err(|error| match raised.take() {
            Some(raised) => raised,
            None => raise(py, error),
        })?;
        actions(py, looked)
    }

    #[doc = stub!(Planner.look_at)]
    fn look_at<'py>(&self, answering: &Bound<'py, Answering>) -> PyResult<Bound<'py, PyList>> {
        let py = answering.py();
        let begun = self.0.lock().begin_look();
        let Some(mut planner) = begun else { return actions(py, Vec::new()) };
        let looked = planner.look_at(&answering.get().0.lock());
        self.0.lock().end_look(planner);
        actions(py, looked.map_err(|error| raise(py, error))?)
    }

    #[doc = stub!(Planner.answers)]
    fn answers<'py>(&self, answering: &Bound<'py, Answering>) -> PyResult<Bound<'py, PyAny>> {
        let (py, planner) = (answering.py(), self.planner());
        let (query, made) = {
            let answering = answering.get().0.lock();
            (answering.query().clone(), planner.answers(&answering))
        };
        answering::answers(py, &query, made.map_err(|error| raise(py, error))?)
    }

    #[doc = stub!(Planner.overall)]
    fn overall(&self, answering: &Bound<'_, Answering>) -> PyResult<Option<Estimate>> {
        let planner = self.planner();
        let overall = planner.overall(&answering.get().0.lock());
        Ok(overall.map_err(|error| raise(answering.py(), error))?.map(Estimate))
    }

    #[doc = stub!(Planner.confidence)]
    #[getter]
    fn confidence(&self) -> f64 {
        self.planner().confidence().level()
    }

    #[doc = stub!(Planner.report)]
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let report = self.0.lock().planner().report().cloned();
        report.map(|report| plan_report(py, report)).transpose()
    }
}
