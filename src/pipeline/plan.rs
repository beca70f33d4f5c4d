//! What is run by now, and how the next configuration takes its place.
//!
//! A pipeline never changes. A reload makes another one, for deliveries that begin afterwards; those under way keep the one they
//! began with. What goes on longer than a configuration (connections, claims, events in flight, counters) is shared by both.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::Pipeline;
use super::route::Routes;
use crate::config::Config;
use crate::telemetry::Telemetry;

/// A configuration, and the routes that were made of it.
#[derive(Clone, Debug)]
pub struct Plan {
    pub config: Arc<Config>,
    pub routes: Arc<Routes>,
}

impl Plan {
    pub fn new(config: Arc<Config>, telemetry: &Telemetry) -> Self {
        let routes = Arc::new(Routes::new(&config, telemetry, None));
        Self { config, routes }
    }

    /// The plan that follows this one.
    pub fn followed_by(&self, config: Config, telemetry: &Telemetry) -> Self {
        let routes = Arc::new(Routes::new(&config, telemetry, Some(&self.routes)));
        Self { config: Arc::new(config), routes }
    }
}

/// Where deliveries come in: to the pipeline of the time.
#[derive(Debug)]
pub struct Door(ArcSwap<Pipeline>);

impl Door {
    pub fn new(pipeline: Pipeline) -> Self {
        Self(ArcSwap::from_pointee(pipeline))
    }

    pub fn pipeline(&self) -> Arc<Pipeline> {
        self.0.load_full()
    }

    /// Whatever comes in from now on goes by this plan.
    pub fn take_up(&self, plan: &Plan) {
        let before = self.pipeline();
        self.0.store(Arc::new(Pipeline { plan: plan.clone(), ..(*before).clone() }));
        // Letters that wait for their turn may be given out otherwise now, or not at all.
        for route in before.plan.routes.all().chain(plan.routes.all()) {
            route.bell.notify_one();
        }
    }
}
