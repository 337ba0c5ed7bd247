-- Releases a mutex's hold and takes the lock for another owner of the same client. At the end
-- of a run of handoffs (ARGV[6] is given) it takes the lock only if no other client waits for it.
--
-- KEYS[1]  the lock's hash
-- KEYS[2]  the fencing-token counter; without it no token is minted
-- KEYS[3]  at the end of a run: a key whose TTL says when a client tries that hears no messages
-- ARGV[1]  field of the hold that ends
-- ARGV[2]  field of the hold that begins, never used before
-- ARGV[3]  lease in ms of the new hold, at least 1
-- ARGV[4]  least token: the client's clock, or 1, see mint.lua
-- ARGV[5]  how many more tokens the client wants, for owners to which it hands the lock on
-- ARGV[6]  at the end of a run: channel on which a release wakes waiters; otherwise none
-- ARGV[7]  number of the client's own subscribers of this channel
-- ARGV[8]  command that publishes there
-- ARGV[9]  longest wait in ms for a client that hears no messages
-- ARGV[10] 1: release the lock in any case
--
-- Answers:
--   {1, token}        the new owner holds the lock, by this or an earlier copy of the request;
--                     token 0: none was minted
--   {1, token, more}  the same, and the next "more" tokens are reserved for the client
--   {2, told, wait}   released; "told" subscribers got the message, and a client that hears no
--                     messages tries in "wait" ms (0: there is none)
--   {0, pttl}         neither hold is there; pttl in ms, -2: the lock is free
local lock, counter, polls = KEYS[1], KEYS[2], KEYS[3]
local oldField, newField, leaseText, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[6]
local ownSubscribers, publish, pollIn, always = ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local lease = tonumber(leaseText)
local floor = tonumber(ARGV[4])
local wanted = tonumber(ARGV[5]) or 0
if not lease or lease < 1 or not floor then
  return redis.error_reply('ERR wheellock: handoff needs a lease of at least 1 ms and a least token')
end
local repeated = redis.pcall('hexists', lock, newField) == 1
if not repeated then
  local ended, unsure = gone(lock, oldField)
  if ended then
    return unsure or {0, redis.call('pttl', lock)}
  end
end
if channel and not repeated then
  local refused = counter and exhausted(counter)
  if refused then
    return refused
  end
  local told = redis.pcall(publish, channel, '0')
  if type(told) == 'table' then
    told = tonumber(ownSubscribers) + 1 -- the message was refused, so assume that others wait
  end
  local wait = polls and redis.pcall('pttl', polls)
  if type(wait) ~= 'number' or wait <= 0 or wait > tonumber(pollIn) + 25 then
    wait = 0
  end
  if told > tonumber(ownSubscribers) or wait > 0 or always == '1' then
    redis.call('hdel', lock, oldField)
    return {2, told, wait}
  end
end
local token, more = 0, 0
-- Commands that full memory can refuse come first, so a refusal changes nothing.
if counter then
  token, more = mint(counter, floor, wanted)
  if not token then
    return more
  end
end
if repeated then
  if redis.call('pttl', lock) < lease then
    redis.call('pexpire', lock, leaseText)
  end
else
  redis.call('hdel', lock, '') -- fails here if HDEL is forbidden: what is set below could not be removed
  redis.call('hset', lock, newField, '1')
  local set = redis.pcall('pexpire', lock, leaseText) -- a new hold, so its own lease replaces the old TTL
  if type(set) == 'table' then -- the old hold stays as it was
    redis.call('hdel', lock, newField)
    return set
  end
  redis.call('hdel', lock, oldField)
end
if more > 0 then
  return {1, token, more}
end
return {1, token}
