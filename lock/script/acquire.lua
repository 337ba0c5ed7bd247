-- Takes a mutex for a new hold, or confirms that a repeated request took it.
--
-- KEYS[1]  the lock's hash {field: count}
-- KEYS[2]  the fencing-token counter; without it no token is minted
-- KEYS[3]  of a client whom no message reaches: a key that says when it tries again
-- ARGV[1]  field of the hold, never used before
-- ARGV[2]  lease in ms, at least 1
-- ARGV[3]  least token: what the client's clock says, or 1, see mint.lua
-- ARGV[4]  how many more tokens the client wants, for those whom it hands the lock to
-- ARGV[5]  in how many ms that is
-- ARGV[6+] fields of earlier attempts whose outcome their client never learned
--
-- Answers {1, token} acquired (token 0: none was minted), {1, token, more} with so many more
-- tokens behind it, {0, pttl} held by another (pttl in ms, -1: none), {0, pttl, 1} held by
-- another library, {0, pttl, 2} held by a stranger: by Redisson, whose only field is
-- <id>:<thread>.
local lock, counter, polls = KEYS[1], KEYS[2], KEYS[3]
local field, leaseText, wanted, pollIn, debt = ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6]
local lease = tonumber(leaseText)
local floor = tonumber(ARGV[3])
if not lease or lease < 1 or not floor then
  return redis.error_reply('ERR wheellock: acquire needs a lease of at least 1 ms and a least token')
end
local others = redis.pcall('hlen', lock)
if type(others) == 'table' then
  -- As foreign.lua says. A function here would cost each call a thirtieth.
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
      -- Of several the first counts. It lives for 25 ms longer, because the client may be slow.
      local left, again = redis.pcall('pttl', polls), tonumber(pollIn) + 25
      if type(left) == 'number' and (left < 0 or left > again) then
        redis.pcall('set', polls, '1', 'px', again) -- without it the client is no worse off than before
      end
    end
    -- Only of a single field: others may have put any number there.
    local only = others == 1 and redis.pcall('hgetall', lock)
    if only and only[1] and string.find(only[1], '^[^:]+:%d+$') then
      return {0, redis.call('pttl', lock), 2}
    end
    return {0, redis.call('pttl', lock)}
  end
end
if debt then
  redis.call('hdel', lock, '') -- may it be called? What is set below could not be removed otherwise
end
local token, more = 0, 0
if counter then
  token, more = mint(counter, floor, tonumber(wanted) or 0)
  if not token then
    return more
  end
end
-- In this order the key is never gone: one that is may not be touched while its
-- slot moves to another server of a Cluster.
redis.call('hset', lock, field, '1')
for i = 6, #ARGV do
  redis.call('hdel', lock, ARGV[i])
end
-- A repeated request must not shorten what its first arrival, or a renewal, gave.
if not mine or redis.call('pttl', lock) < lease then
  local set = redis.pcall('pexpire', lock, leaseText)
  if type(set) == 'table' then -- nobody holds a lock that would never end
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
