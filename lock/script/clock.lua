-- Asks for the server's time where expire.lua did not, because the call has no time limit. It
-- precedes the scripts that compare or write times of day. clock then is nil only where the user
-- may not call TIME.
if not clock then
  local time = redis.pcall('time')
  if not time.err then
    seconds, micros = tonumber(time[1]), tonumber(time[2])
    clock = seconds * 1000 + (micros - micros % 1000) / 1000 -- rounded down
  end
end
