-- Takes a mutex for a new hold, or confirms that an earlier copy of the request did.
--
-- KEYS[1]  the lock's hash {field: count}
-- KEYS[2]  the fencing-token counter; without it no token is minted
-- KEYS[3]  given by a client that hears no messages: a key whose TTL says when it tries again
-- ARGV[1]  field of the hold, never used before
-- ARGV[2]  lease in ms, at least 1
-- ARGV[3]  least token: the client's clock, or 1, see mint.lua
-- ARGV[4]  how many more tokens the client wants, for owners to which it hands the lock on
-- ARGV[5]  with KEYS[3]: ms until the client tries again
-- ARGV[6+] fields of the client's earlier attempts with an unknown outcome
--
-- Answers:
--   {1, token}        acquired; token 0: none was minted
--   {1, token, more}  acquired, and the next "more" tokens are reserved for the client
--   {0, pttl}         another owner holds the lock; pttl in ms, -1: no TTL
--   {0, pttl, 1}      another library holds the lock
--   {0, pttl, 2}      Redisson holds the lock: its only field is <id>:<thread>
local lock, counter, polls = KEYS[1], KEYS[2], KEYS[3]
local field, leaseText, wanted, pollIn, debt = ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6]
local lease = tonumber(leaseText)
local floor = tonumber(ARGV[3])
if not lease or lease < 1 or not floor then
  return redis.error_reply('ERR wheellock: acquire needs a lease of at least 1 ms and a least token')
end
local others = redis.pcall('hlen', lock)
if type(others) == 'table' then
  -- The same as in foreign.lua. Calling a function would make every call 3 % slower.
  local left = type(redis.pcall('get', lock)) == 'string' and redis.call('pttl', lock) or -1
  return left >= 0 and {0, left, 1} or others
end
local mine = others > 0 and redis.call('hexists', lock, field) == 1
if others > 0 and not mine then
  local owed = {}
  for i = 6, #ARGV do
    if not owed[ARGV[i]] then
      owed[ARGV[i]] = true
      others = others - redis.call('hexists', lock, ARGV[i])
    end
  end
  if others > 0 then
    for i = 6, #ARGV do
      redis.call('hdel', lock, ARGV[i])
    end
    if polls then
      -- If several clients poll, the earliest time is kept. The key lives 25 ms longer, because the
      -- client may be late.
      local left, again = redis.pcall('pttl', polls), tonumber(pollIn) + 25
      if type(left) == 'number' and (left < 0 or left > again) then
        redis.pcall('set', polls, '1', 'px', again) -- if this fails, the client still polls
      end
    end
    -- Only a single field is read, because other programs may have put any number there.
    local only = others == 1 and redis.pcall('hgetall', lock)
    if only and only[1] and string.find(only[1], '^[^:]+:%-?%d+$') then
      return {0, redis.call('pttl', lock), 2}
    end
    return {0, redis.call('pttl', lock)}
  end
end
if debt then
  redis.call('hdel', lock, '') -- fails here if HDEL is forbidden: what is set below could not be removed
end
local token, more = 0, 0
if counter then
  token, more = mint(counter, floor, tonumber(wanted) or 0)
  if not token then
    return more
  end
end
-- HSET comes before HDEL, so the key never vanishes in between. While its slot moves to another
-- server of a Cluster, a script must not touch a key that is gone.
redis.call('hset', lock, field, '1')
for i = 6, #ARGV do
  redis.call('hdel', lock, ARGV[i])
end
-- A repeated request must not shorten the lease that its first copy or a renewal has set.
if not mine or redis.call('pttl', lock) < lease then
  local set = redis.pcall('pexpire', lock, leaseText)
  if type(set) == 'table' then -- no hold without an end
    if not mine then
      redis.call('hdel', lock, field)
    end
    return set
  end
end
if more > 0 then
  return {1, token, more}
end
return {1, token}
