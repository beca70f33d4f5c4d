//! The closed lists behind metric labels, log fields and the `Hookonce-Outcome` header.

/// A list of words, each with its place in the list.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

pub(crate) use words;

words!(
    /// How a delivery was answered.
    Outcome {
        /// The consumer accepted it.
        Forwarded = "forwarded",
        /// The event was done before.
        Duplicate = "duplicate",
        /// It is in the queue, durably.
        Queued = "queued",
        /// Another copy was under way, and succeeded.
        Waited = "waited",
        /// The consumer refused it, or could not be reached: the next copy will be forwarded.
        Failed = "failed",
        /// It was sent, and no answer came: what became of it is not known.
        Ambiguous = "ambiguous",
        /// The consumer is still at work on it.
        InFlight = "in_flight",
        /// It did not verify, or was not a delivery.
        Rejected = "rejected",
        /// A limit was reached.
        Limited = "limited",
        /// The store could not be asked.
        StoreDown = "store_down",
        /// A challenge, answered or passed on.
        Handshake = "handshake",
        /// It carries no event id.
        NoId = "no_id",
        /// A known id with another body.
        Conflict = "conflict",
        /// The sender hung up before there was an answer.
        Abandoned = "abandoned",
    }
);

words!(
    /// What the store is asked to do.
    StoreOp {
        Claim = "claim",
        Bind = "bind",
        Complete = "complete",
        Fail = "fail",
        Renew = "renew",
        Keep = "keep",
        Look = "look",
        Find = "find",
        Forget = "forget",
        Bypass = "bypass",
        Append = "append",
        Take = "take",
        Extend = "extend",
        Finish = "finish",
        Postpone = "postpone",
        Bury = "bury",
        Revive = "revive",
        Letters = "letters",
        Pulse = "pulse",
    }
);

words!(
    /// What came of telling the store about an event that was handled without it.
    Amends {
        /// It is stored as done.
        Done = "done",
        /// It is stored that an attempt ended unknown.
        Doubt = "doubt",
        /// Another instance had completed it too.
        Conflict = "conflict",
    }
);

words!(
    /// A bound that was reached.
    Limit {
        Body = "body",
        BodyTime = "body_time",
        Buffered = "buffered",
        /// One address holds too much with requests that nobody has vouched for yet.
        BufferedPerAddress = "buffered_per_address",
        /// The request's target is too long.
        Uri = "uri",
        /// Too many header fields, or too many bytes in them.
        Headers = "headers",
        HeaderTime = "header_time",
        /// A reply was not taken in time.
        ReplyTime = "reply_time",
        Connections = "connections",
        ConnectionsPerAddress = "connections_per_address",
        /// A connection on which nothing was under way that was known to be genuine was closed to make room for another.
        Crowded = "crowded",
        /// Request after request was given up on one connection.
        Resets = "resets",
        /// It came from outside of the networks that may deliver.
        Networks = "networks",
        /// More deliveries of a provider than its rate allows.
        Rate = "rate",
        Concurrency = "concurrency",
        Attempts = "attempts",
        /// Attempts at one event failed faster than they may.
        AttemptsPerEvent = "attempts_per_event",
        Waiters = "waiters",
        Queue = "queue",
        /// The consumer's answer does not end.
        Answer = "answer",
    }
);

words!(
    /// How an attempt at a letter ended.
    LetterOutcome {
        /// The consumer accepted it.
        Done = "done",
        /// The consumer refused it, or could not be reached: it is tried again.
        Failed = "failed",
        /// It was sent, and no answer came: it is tried again, marked.
        Unknown = "unknown",
        /// It failed for the last time, and waits for somebody to act.
        Dead = "dead",
        /// It was put back before anything was sent.
        Returned = "returned",
    }
);
