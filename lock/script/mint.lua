-- Mints fencing tokens. It stands between expire.lua and each script that does.
--
-- lastToken returns the last token of a counter, and an error if there can be none after
-- it. A counter that is no number is overwritten: the least token rises by itself.
local function lastToken(counter)
  local last = tonumber(redis.call('get', counter) or '0') or 0
  if not (last < 9007199254740990) then
    return nil, redis.error_reply('ERR wheellock: the token counter ' .. counter .. ' is past 2^53; delete it')
  end
  return last
end
-- mint returns the next token after the last one, at least the least, and how many of so
-- many more are reserved behind it: all or none. Tokens of a counter that is lost go on
-- from the time. Ahead of it by more than 10 ms none is reserved.
local function mint(counter, last, least, more)
  local token = math.max(math.floor(last) + 1, least)
  if token + more - least > 10485 then
    more = 0
  end
  redis.call('set', counter, string.format('%.0f', token + more))
  return token, more
end
