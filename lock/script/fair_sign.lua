-- Gives signs of life for one client's waiters in the queue of a fair mutex.
--
-- Most requests of waiters are this one, so its cost does not grow with the queue. It never
-- adds a waiter to the queue and never takes the lock, so a late copy changes nothing. A waiter
-- is in the queue if it has a score and a sign. If Redisson may have a waiter in the queue,
-- scores depend on the whole queue, and this script does nothing. See fair_take.
--
-- KEYS[1]  the lock's hash
-- KEYS[2]  the queue, a list of fields
-- KEYS[3]  how long each field may stay in the queue {field: epoch ms}
-- KEYS[4]  signs of life of the queue's waiters, except Redisson's
-- ARGV[1]  the client's clock in epoch ms, used if TIME is refused
-- ARGV[2]  how long Redisson waits for the first in the queue, in ms
-- ARGV[3]  shortest TTL of the queue after a sign of life, in ms
-- ARGV[4]  grace: a sign of life moves the score this far ahead of the clock, in ms
-- ARGV[5]  end of a sign of life, behind its number and time
-- ARGV[6+] for each waiter its field and the number of its sign
--
-- Answers {pttl, first, sign, left}:
--   pttl   TTL of the lock in ms; -1: no TTL, -2: the lock is free
--   first  the first field in the queue, as fair_take answers it
--   sign   the sign of life of that field
--   left   a text with one digit per waiter; 1: nothing was done for it, so send fair_take
local lock, queue, scores, signs = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now, patience, life, grace = clock or tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local suffix = ARGV[5]
if not now or not patience or not life or not grace then
  return redis.error_reply('ERR wheellock: fair_sign needs times')
end
local length, signed, scored = redis.call('llen', queue), redis.call('hlen', signs), redis.call('zcard', scores)
-- Redisson gives no signs, and leaves the signs of waiters that it sweeps. So the counts may be
-- equal although Redisson waits. Then its scores show it, because they are its long wait ahead.
local ours = length == signed and length == scored and redis.call('zcount', scores, now + patience / 2, '+inf') == 0
if ours then
  redis.call('zrem', scores, '') -- after a first write, full memory refuses nothing more
end
local left = {}
for i = 6, #ARGV, 2 do
  local field, number, still = ARGV[i], tonumber(ARGV[i + 1]), '0'
  local last, at = string.match(ours and redis.call('hget', signs, field) or '', '^(%d+)@(%d+)')
  if not last or not redis.call('zscore', scores, field) then
    still = '1'
  elseif number > tonumber(last) then
    local time = now
    if tonumber(at) > now and at - now < patience / 2 then
      time = tonumber(at) -- the clock was set back, and scores are never lowered
    end
    redis.call('hset', signs, field, string.format('%.0f@%.0f', number, now) .. suffix)
    redis.call('zadd', scores, string.format('%.0f', time + grace), field)
  end
  left[#left + 1] = still
end
if ours then -- so the queue expires when all its waiters are dead
  for i = 2, 4 do
    if redis.call('pttl', KEYS[i]) < life then
      redis.call('pexpire', KEYS[i], life)
    end
  end
end
local first = redis.call('lindex', queue, 0) or ''
local sign = redis.call('hget', signs, first) or ''
return {redis.call('pttl', lock), string.sub(first, 1, 1024), string.sub(sign, 1, 1024), table.concat(left)}
