-- Mints fencing tokens. It stands between expire.lua and each script that does.
--
-- A token is one more than the last one, and at least what the server's clock says, so
-- tokens rise although their counter is lost. Clients' clocks count only where the server's
-- is not known. Neither counts where the least token is 1: such a counter is Redisson's,
-- and exact.
--
-- The clock is read as seconds * 2^20 + microseconds: it rises by at least one in a
-- microsecond, and no two scripts run in the same one. Until 2242 it is below 2^53.
--
-- exhausted returns an error if a counter can go no further. A script that says or changes
-- something before it mints asks that first.
local function exhausted(counter)
  local last = tonumber(redis.call('get', counter) or '')
  if last and not (last < 9007199254740990) then
    return redis.error_reply('ERR wheellock: the token counter ' .. counter .. ' is past 2^53; set it to the seconds of TIME x 2^20, do not delete it')
  end
end
-- mint returns the next token, and how many of so many more are reserved behind it: all or
-- none; or nil and an error, and then the counter has the value that it had. One that is no
-- number counts as lost, and is overwritten. Reserved tokens are ahead of the clock by at most
-- 10485, about 10 ms, and those that are minted one by one rise more slowly than it. A lost
-- counter begins 10486 ahead, so above all tokens from before, although they were reserved
-- just now.
local function mint(counter, least, more)
  if seconds and least > 1 then
    least = seconds * 1048576 + micros
  end
  if more > 10485 then
    more = 0
  end
  -- The clock is nearly always above the last token. So one command will do. Where it is not,
  -- the same command mends it, because a user who may do the first may do the second.
  local text = redis.call('getset', counter, string.format('%.0f', least + more))
  local last = tonumber(text or '')
  if last and last < 562949953421312 and least > 562949953421312 then
    last = nil -- 2^49: no clock has shown less since 1987, so somebody put it there
  end
  local token = least
  if not last then
    if least > 1 then
      token = least + 10486
    end
  elseif last < least then
    return token, more
  elseif last < 9007199254740990 then
    token = math.floor(last) + 1
  else
    redis.call('getset', counter, text)
    return nil, exhausted(counter)
  end
  if token + more - least > 10485 then
    more = 0
  end
  redis.call('getset', counter, string.format('%.0f', token + more))
  return token, more
end
