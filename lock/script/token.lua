-- Mints a fencing token for a hold whose script could not reach the counter,
-- because a Cluster is just moving their slot.
--
-- KEYS[1] the fencing-token counter
-- ARGV[1] least token: wall seconds * 2^20 + microseconds
--
-- Answers the token.
local floor = tonumber(ARGV[1])
if not floor then
  return redis.error_reply('ERR wheellock: token needs a least token')
end
-- A counter that is no number is overwritten: the least token rises by itself.
local last = tonumber(redis.call('get', KEYS[1]) or '0') or 0
if not (last < 9007199254740990) then
  return redis.error_reply('ERR wheellock: the token counter ' .. KEYS[1] .. ' is past 2^53; delete it')
end
local token = math.max(math.floor(last) + 1, floor)
redis.call('set', KEYS[1], string.format('%.0f', token))
return token
