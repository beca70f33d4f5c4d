//! A lane in Redis, and what is done with it in one step.
//!
//! All keys of a lane and the cells of its events share a hash tag, so that a Cluster keeps them on one server:
//! `due` and `old` and `dead` are sorted sets of letters' names, by when they are due and by when they came; `tally` counts
//! bytes; a letter is a hash, a line a list. Only names that a script finds on its way are not declared: letters by `take`,
//! and whoever is next in a line.

use std::sync::LazyLock;

use super::scripts::Forms;

/// KEYS: due, old, dead, tally. Every script begins with this.
const COMMON: &str = r"
local due, old, dead, tally = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- The millisecond that has begun counts for nothing: no lease, and no pause, ends early.
local function after(pause) return now + pause + 1 end
local prefix = ARGV[1]
local function first_of(key)
    local first = redis.call('LINDEX', key, 0)
    -- Somebody has thrown the letter away: nobody else must wait for it.
    while first and redis.call('EXISTS', prefix .. ':letter:' .. first) == 0 do
        redis.call('LPOP', key)
        first = redis.call('LINDEX', key, 0)
    end
    return first
end
local function leave(line, id)
    if line == '' then return end
    local key = prefix .. ':line:' .. line
    redis.call('LREM', key, 1, id)
    local first = first_of(key)
    if first and redis.call('ZSCORE', old, first) and not redis.call('ZSCORE', due, first) then
        redis.call('ZADD', due, now, first)
    end
end
local function clear(id)
    local letter = prefix .. ':letter:' .. id
    local note = redis.call('HMGET', letter, 'bytes', 'line')
    if not note[1] then return end
    -- First what may be refused, while the slot is moved: there is nothing half done then.
    leave(note[2], id)
    redis.call('ZREM', due, id)
    if redis.call('ZREM', old, id) == 1 then redis.call('HINCRBY', tally, 'bytes', -note[1]) end
    if redis.call('ZREM', dead, id) == 1 then redis.call('HINCRBY', tally, 'dead_bytes', -note[1]) end
    redis.call('DEL', letter)
end
local function join(id, line)
    if line ~= '' then
        local key = prefix .. ':line:' .. line
        redis.call('RPUSH', key, id)
        if first_of(key) ~= id then return end
    end
    redis.call('ZADD', due, now, id)
end
local function own(letter, token)
    return redis.call('HGET', letter, 'token') == token
end
";

fn script(code: &str) -> Forms {
    Forms::new(&format!("{COMMON}{code}"))
}

/// KEYS: ..., letter, cell (or due), line (or due). ARGV: prefix, id, content, attempt, doubt, status, queued at, line,
/// cell, its value, what it may replace (or nothing), the life of that in ms (or nothing), its least age in ms, most letters,
/// bytes, dead bytes.
pub(super) static APPEND: LazyLock<Forms> = LazyLock::new(|| {
    script(
        r"
local letter, id, content, line, cell = KEYS[5], ARGV[2], ARGV[3], ARGV[8], ARGV[9]
if cell ~= '' then
    local held = redis.call('GET', KEYS[6])
    if held == ARGV[10] then return {0} end
    if held and held ~= ARGV[11] then return {1, held} end
    if held and ARGV[12] ~= '' then
        local missing = ARGV[13] - (ARGV[12] - redis.call('PTTL', KEYS[6]))
        if missing > 0 then return {2, missing} end
    end
end
if redis.call('EXISTS', letter) == 1 then return {0} end
local sizes = redis.call('HMGET', tally, 'bytes', 'dead_bytes')
if redis.call('ZCARD', old) + 1 > tonumber(ARGV[14]) then return {3, 0} end
if (tonumber(sizes[1]) or 0) + #content > tonumber(ARGV[15]) then return {3, 1} end
if redis.call('ZCARD', dead) > 0 and (tonumber(sizes[2]) or 0) >= tonumber(ARGV[16]) then return {3, 2} end
redis.call('HSET', letter, 'content', content, 'attempt', ARGV[4], 'doubt', ARGV[5], 'status', ARGV[6], 'queued', ARGV[7],
    'line', line, 'cell', cell, 'token', '', 'bytes', #content)
join(id, line)
redis.call('ZADD', old, 0, id)
redis.call('HINCRBY', tally, 'bytes', #content)
if cell ~= '' then redis.call('SET', KEYS[6], ARGV[10]) end
return {0}",
    )
});

/// KEYS: ..., what this call has taken. ARGV: prefix, lease in ms, most letters, most bytes, token, for how many ms it may be sent
/// again: it is given the same letters then; 1 where a cell that says done is believed. A letter that is not there may be on its way to another
/// server, or somebody has thrown it away: it is looked for again after a lease, and holds nobody up.
pub(super) static TAKE: LazyLock<Forms> = LazyLock::new(|| {
    script(
        r"
local fields = {'content', 'attempt', 'doubt', 'status', 'queued', 'cell', 'line', 'token'}
local notes, taken, bytes, missing = {}, {}, 0, 0
local trusts = ARGV[7] == '1'
local function held_by(note)
    return note[6] ~= '' and redis.call('GET', note[6])
end
local function give(id, note, held)
    taken[#taken + 1] = {id, note[1], note[2], note[3], note[4], note[5], note[6], note[7], not trusts and held or ''}
end
local again = redis.call('LRANGE', KEYS[5], 0, -1)
for _, id in ipairs(again) do
    local note = redis.call('HMGET', prefix .. ':letter:' .. id, unpack(fields))
    if note[8] == ARGV[5] then give(id, note, not trusts and held_by(note)) end
end
local ids = #again == 0 and redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, ARGV[3]) or {}
for _, id in ipairs(ids) do
    if bytes >= tonumber(ARGV[4]) then break end
    local letter = prefix .. ':letter:' .. id
    local note = redis.call('HMGET', letter, unpack(fields))
    if note[1] then
        bytes = bytes + #note[1]
        notes[#notes + 1] = {id, letter, note}
    else
        missing = missing + 1
        redis.call('ZADD', due, after(ARGV[2]), id)
    end
end
for _, found in ipairs(notes) do
    local id, letter, note = found[1], found[2], found[3]
    local held = held_by(note)
    if trusts and held and string.sub(held, 1, 3) == '1d|' then
        clear(id)
    else
        if note[8] ~= '' and note[3] == '' then note[3] = 'unknown' end
        note[2] = note[2] + 1
        redis.call('HSET', letter, 'attempt', note[2], 'doubt', note[3], 'token', ARGV[5])
        redis.call('ZADD', due, after(ARGV[2]), id)
        redis.call('RPUSH', KEYS[5], id)
        give(id, note, held)
    end
end
if #taken > 0 then redis.call('PEXPIRE', KEYS[5], ARGV[6]) end
local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
return {taken, first[2] and math.max(0, first[2] - now) or -1, missing}",
    )
});

/// KEYS: ..., letter. ARGV: prefix, id, token, lease in ms.
pub(super) static EXTEND: LazyLock<Forms> = LazyLock::new(|| {
    script(
        r"
if not own(KEYS[5], ARGV[3]) then return 0 end
redis.call('ZADD', due, after(ARGV[4]), ARGV[2])
return 1",
    )
});

/// KEYS: ..., letter, cell (or due), line (or due). ARGV: prefix, id, value (or nothing), life in s.
pub(super) static FINISH: LazyLock<Forms> = LazyLock::new(|| {
    script(
        r"
local held = ARGV[3] ~= '' and redis.call('GET', KEYS[6])
clear(ARGV[2])
if ARGV[3] ~= '' then redis.call('SET', KEYS[6], ARGV[3], 'EX', ARGV[4]) end
return held",
    )
});

/// KEYS: ..., letter. ARGV: prefix, id, token, attempt, doubt, status, queued at, pause in ms.
pub(super) static POSTPONE: LazyLock<Forms> = LazyLock::new(|| {
    script(
        r"
if not own(KEYS[5], ARGV[3]) then return 0 end
redis.call('HSET', KEYS[5], 'attempt', ARGV[4], 'doubt', ARGV[5], 'status', ARGV[6], 'token', '')
redis.call('ZADD', due, ARGV[8] == '0' and now or after(ARGV[8]), ARGV[2])
return 1",
    )
});

/// KEYS: ..., letter, line (or due). ARGV: prefix, id, token, attempt, doubt, status, queued at, whether it keeps its place in its
/// line.
pub(super) static BURY: LazyLock<Forms> = LazyLock::new(|| {
    script(
        r"
if not own(KEYS[5], ARGV[3]) then return 0 end
local note = redis.call('HMGET', KEYS[5], 'bytes', 'line')
if ARGV[8] == '0' then leave(note[2], ARGV[2]) end
redis.call('HSET', KEYS[5], 'attempt', ARGV[4], 'doubt', ARGV[5], 'status', ARGV[6], 'token', '')
redis.call('ZREM', due, ARGV[2])
redis.call('ZREM', old, ARGV[2])
redis.call('ZADD', dead, 0, ARGV[2])
redis.call('HINCRBY', tally, 'bytes', -note[1])
redis.call('HINCRBY', tally, 'dead_bytes', note[1])
return 1",
    )
});

/// KEYS: ..., letter. ARGV: prefix, id, attempt, doubt, status, queued at.
pub(super) static REVIVE: LazyLock<Forms> = LazyLock::new(|| {
    script(
        r"
local note = redis.call('HMGET', KEYS[5], 'bytes', 'line', 'token')
if not note[1] then return 1 end
local id, score = ARGV[2], redis.call('ZSCORE', due, ARGV[2])
if note[3] ~= '' and score and tonumber(score) > now then return 2 end
redis.call('HSET', KEYS[5], 'attempt', ARGV[3], 'doubt', ARGV[4], 'status', ARGV[5], 'token', '')
if redis.call('ZREM', dead, id) == 0 then
    if score then redis.call('ZADD', due, now, id) end
    return 0
end
redis.call('HINCRBY', tally, 'dead_bytes', -note[1])
redis.call('HINCRBY', tally, 'bytes', note[1])
redis.call('ZADD', old, 0, id)
if note[2] ~= '' and redis.call('LPOS', prefix .. ':line:' .. note[2], id) then
    if redis.call('LINDEX', prefix .. ':line:' .. note[2], 0) == id then redis.call('ZADD', due, now, id) end
else
    join(id, note[2])
end
return 0",
    )
});

/// ARGV: prefix, 1 for dead ones, after which name (or nothing), how many.
pub(super) static LIST: LazyLock<Forms> = LazyLock::new(|| {
    script(
        r"
local from = ARGV[3] == '' and '-' or '(' .. ARGV[3]
local listed = {}
for _, id in ipairs(redis.call('ZRANGEBYLEX', ARGV[2] == '1' and dead or old, from, '+', 'LIMIT', 0, ARGV[4])) do
    local note = redis.call('HMGET', prefix .. ':letter:' .. id, 'attempt', 'doubt', 'status', 'queued', 'cell', 'line', 'token', 'bytes')
    if note[1] then
        local score = redis.call('ZSCORE', due, id)
        listed[#listed + 1] = {id, score and math.max(0, score - now) or -1, note[1], note[2], note[3], note[4], note[5], note[6], note[7], note[8], ARGV[2], ''}
    end
end
return listed",
    )
});

/// KEYS: ..., letter. ARGV: prefix, id.
pub(super) static LETTER: LazyLock<Forms> = LazyLock::new(|| {
    script(
        r"
local note = redis.call('HMGET', KEYS[5], 'attempt', 'doubt', 'status', 'queued', 'cell', 'line', 'token', 'bytes', 'content')
if not note[1] then return false end
local score = redis.call('ZSCORE', due, ARGV[2])
local is_dead = redis.call('ZSCORE', dead, ARGV[2]) and '1' or '0'
return {ARGV[2], score and math.max(0, score - now) or -1, note[1], note[2], note[3], note[4], note[5], note[6], note[7], note[8], is_dead, note[9]}",
    )
});

/// ARGV: prefix.
pub(super) static TALLY: LazyLock<Forms> = LazyLock::new(|| {
    script(
        r"
local sizes = redis.call('HMGET', tally, 'bytes', 'dead_bytes')
local first = redis.call('ZRANGE', old, 0, 0)[1]
local queued = first and redis.call('HGET', prefix .. ':letter:' .. first, 'queued')
return {redis.call('ZCARD', old), tonumber(sizes[1]) or 0, redis.call('ZCARD', dead), tonumber(sizes[2]) or 0, queued or ''}",
    )
});
