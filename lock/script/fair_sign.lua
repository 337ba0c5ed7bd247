-- Gives signs of life for waiters of one client that stand in the queue of a fair mutex.
--
-- Most requests of waiters are this one, so its cost does not grow with the queue. It gives
-- nobody a place and never takes the lock: a copy that comes late changes nothing. A waiter
-- stands in the queue if it has a score and a sign. Where a waiter of Redisson may stand
-- there, scores depend on the whole queue, so this script does nothing. See fair_take.
--
-- KEYS[1]  the lock's hash
-- KEYS[2]  the queue, a list of fields
-- KEYS[3]  until when each may stand there {field: epoch ms}
-- KEYS[4]  signs of life of those in the queue that are not Redisson's
-- ARGV[1]  the client's clock in epoch ms. The server's stands in its place where it is
--          known
-- ARGV[2]  how long Redisson waits for the first in the queue, in ms
-- ARGV[3]  how long the queue lives at least without a sign of life, in ms
-- ARGV[4]  how far ahead of the clock a score is with each sign of life, in ms
-- ARGV[5]  what follows the number and the time in a sign of life
-- ARGV[6+] a waiter's field and the number of its sign, again and again
--
-- Answers {pttl, first, sign, left}: pttl in ms of who holds the lock (-1: it has none, -2:
-- nobody), the first in the queue and its sign of life, as fair_take does, and a text with a
-- digit for each waiter: 1 if it must send fair_take, because nothing was done for it.
local lock, queue, scores, signs = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now, patience, life, grace = clock or tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local suffix = ARGV[5]
if not now or not patience or not life or not grace then
  return redis.error_reply('ERR wheellock: fair_sign needs times')
end
local length, signed, scored = redis.call('llen', queue), redis.call('hlen', signs), redis.call('zcard', scores)
-- Redisson gives no signs. If it has swept as many of ours, whose signs stay, as it has
-- waiters, its scores still show it: they are its long wait ahead.
local ours = length == signed and length == scored and redis.call('zcount', scores, now + patience / 2, '+inf') == 0
if ours then
  redis.call('zrem', scores, '') -- a write, so that memory that is out does not refuse what follows
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
      time = tonumber(at) -- the clock was set back: no score is lowered
    end
    redis.call('hset', signs, field, string.format('%.0f@%.0f', number, now) .. suffix)
    redis.call('zadd', scores, string.format('%.0f', time + grace), field)
  end
  left[#left + 1] = still
end
if ours then -- a queue of the dead ends by itself
  for i = 2, 4 do
    if redis.call('pttl', KEYS[i]) < life then
      redis.call('pexpire', KEYS[i], life)
    end
  end
end
local first = redis.call('lindex', queue, 0) or ''
local sign = redis.call('hget', signs, first) or ''
return {redis.call('pttl', lock), string.sub(first, 1, 1024), string.sub(sign, 1, 1024), table.concat(left)}
