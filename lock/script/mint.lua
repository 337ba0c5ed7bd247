-- Mints fencing tokens. It stands between expire.lua and every script that mints.
--
-- A token is above the last token and at least the server's clock, so tokens rise even if their
-- counter is lost. A client's clock is used only if the server's is unknown. No clock is used if
-- the least token is 1: such a counter is Redisson's and counts by one.
--
-- The clock is read as seconds * 2^20 + microseconds: it rises by at least one in a
-- microsecond, and no two scripts run in the same one. Until 2242 it is below 2^53.
--
-- exhausted returns an error if a counter cannot rise any more. A script that publishes or
-- changes something before it mints must call it first.
local function exhausted(counter)
  local last = tonumber(redis.call('get', counter) or '')
  if last and not (last < 9007199254740990) then
    return redis.error_reply('ERR wheellock: the token counter ' .. counter .. ' is past 2^53; set it to the seconds of TIME x 2^20, do not delete it')
  end
end
-- mint returns the next token and the number of tokens reserved behind it, which is more or 0.
-- If it fails, it returns nil and an error, and the counter is unchanged. A counter that is no
-- number counts as lost and is overwritten. Reserved tokens are at most 10485 ahead of the clock,
-- about 10 ms. Tokens minted one by one rise more slowly than the clock. A lost counter begins
-- 10486 ahead, which is above all earlier tokens, even those reserved just before.
local function mint(counter, least, more)
  if seconds and least > 1 then
    least = seconds * 1048576 + micros
  end
  if more > 10485 then
    more = 0
  end
  -- The clock is nearly always above the last token, so one command is enough. If it is not, a
  -- second GETSET corrects the counter. It cannot be forbidden if the first was permitted.
  local text = redis.call('getset', counter, string.format('%.0f', least + more))
  local last = tonumber(text or '')
  if last and last < 562949953421312 and least > 562949953421312 then
    last = nil -- clocks have been above 2^49 since 1987, so this number is not from a clock
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
