//! What Redis must do in one step and has no command for. Each script touches one cell, `KEYS[1]`.

use std::sync::LazyLock;

use super::call::Lua;

/// A script, and the same for a server whose memory is full (known since 7.0).
pub(super) struct Forms {
    pub plain: Lua,
    pub when_full: Lua,
}

impl Forms {
    pub fn new(code: &str) -> Self {
        Self { plain: Lua::new(code), when_full: Lua::new(format!("#!lua flags=allow-oom\n{code}")) }
    }
}

/// ARGV: from, to, life in ms, life that `from` was given in ms (or empty), least age in ms.
pub(super) static SWAP: LazyLock<Forms> = LazyLock::new(|| {
    Forms::new(
        r"local held = redis.call('GET', KEYS[1])
        if held == ARGV[2] then return {0} end
        if held ~= ARGV[1] then return {2, held} end
        if ARGV[4] ~= '' then
            local missing = ARGV[5] - (ARGV[4] - redis.call('PTTL', KEYS[1]))
            if missing > 0 then return {1, missing} end
        end
        redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
        return {0}",
    )
});

/// ARGV: the value it must hold, life in ms.
pub(super) static TOUCH: LazyLock<Lua> = LazyLock::new(|| {
    Lua::new(
        r"if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
        return redis.call('PEXPIRE', KEYS[1], ARGV[2])",
    )
});

/// Its value and what is left of its life in ms, which two commands might find of two values.
pub(super) static READ: LazyLock<Lua> = LazyLock::new(|| {
    Lua::new(
        r"local held = redis.call('GET', KEYS[1])
        return held and {held, redis.call('PTTL', KEYS[1])}",
    )
});

/// `SET NX GET EX` for servers before 7.0, which refuse NX and GET together.
pub(super) static PUT_NEW: LazyLock<Lua> = LazyLock::new(|| {
    Lua::new(
        r"local held = redis.call('GET', KEYS[1])
        if held then return held end
        redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
        return false",
    )
});

/// `SET GET EX` for servers before 6.2, and for those that are full.
pub(super) static PUT: LazyLock<Forms> = LazyLock::new(|| {
    Forms::new(
        r"local held = redis.call('GET', KEYS[1])
        redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
        return held",
    )
});
