-- Releases a mutex's hold and takes it for another owner of the same client; at the end
-- of a run only if nobody else is there who hears of the release.
--
-- KEYS[1]  the lock's hash
-- KEYS[2]  the fencing-token counter; without it no token is minted
-- KEYS[3]  at the end of a run: a key that says when a client tries whom no message reaches
-- ARGV[1]  field of the hold that ends
-- ARGV[2]  field of the hold that begins, never used before
-- ARGV[3]  lease in ms of the new hold, at least 1
-- ARGV[4]  least token: what the client's clock says, or 1, see mint.lua
-- ARGV[5]  how many more tokens the client wants, for those whom it hands the lock to
-- ARGV[6]  at the end of a run: channel on which a release wakes waiters; otherwise none
-- ARGV[7]  how many of the channel's subscribers are the client's own
-- ARGV[8]  command that publishes there
-- ARGV[9]  for how many ms such a client is waited for
-- ARGV[10] 1: it is released in any case
--
-- Answers {1, token} done now, or by an earlier arrival of this request
-- (token 0: none was minted), {1, token, more} with so many more tokens behind it;
-- {2, told, wait} released, so many subscribers told, and in so many ms somebody tries
-- who did not hear of it (0: nobody); {0, pttl} neither hold is there
-- (pttl -2: nobody's is).
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
    told = tonumber(ownSubscribers) + 1 -- who is not told may wait all the same
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
-- The commands that memory can refuse come first, so that a refusal changes nothing.
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
  redis.call('hdel', lock, '') -- may it be called? What is set now could not be removed otherwise
  redis.call('hset', lock, newField, '1')
  local set = redis.pcall('pexpire', lock, leaseText) -- another hold: it has the lease that it asked for
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
