-- Refuses a call that comes too late. It precedes every script that takes or changes
-- something.
--
-- ARGV[last]  the time of this server, in ms since 1970, after which nothing is done; 0: no
--             limit. The script that follows does not see this argument
--
-- Answers the error LATE <the server's time in ms>: nothing was done.
-- The script may use clock, the server's time in ms, and its parts seconds and micros. All
-- three are nil without a limit, and where the user may not call TIME.
-- Every call pays for this, mostly for TIME itself. So the code uses locals, because Lua looks
-- up a global by name each time, and arithmetic instead of table.remove and math.floor.
local args, redis = ARGV, redis
local last = #args
local limit, clock, seconds, micros = tonumber(args[last] or ''), nil, nil, nil
args[last] = nil
if not limit then
  return redis.error_reply('ERR wheellock: the last argument must be the time limit of the call')
end
if redis.replicate_commands then
  redis.replicate_commands() -- see effects.lua
end
if limit > 0 then
  local time = redis.pcall('time')
  if not time.err then
    seconds, micros = tonumber(time[1]), tonumber(time[2])
    clock = seconds * 1000 + (micros - micros % 1000) / 1000 -- rounded down
    if clock > limit then
      return redis.error_reply(string.format('LATE %.0f', clock))
    end
  end
end
