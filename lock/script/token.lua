-- Mints a fencing token for a hold whose script could not reach the counter, because a Cluster is
-- moving the counter's slot.
--
-- KEYS[1] the fencing-token counter
-- ARGV[1] least token: the client's clock, or 1, see mint.lua
--
-- Answers the token.
local counter, floor = KEYS[1], tonumber(ARGV[1])
if not floor then
  return redis.error_reply('ERR wheellock: token needs a least token')
end
local token, refused = mint(counter, floor, 0)
return token or refused
