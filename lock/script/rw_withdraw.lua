-- Takes back that a writer waits.
--
-- KEYS[1] the writers that wait {writer: 1}
-- ARGV[1] name of the writer
-- ARGV[2] channel on which readers that it kept out are woken
-- ARGV[3] command that publishes there; publish if it is not given
--
-- Answers 1 done, 0 it was not there.
-- If the message was refused, the answer is {that number, the error}.
-- How many there are is asked first, because a key that is gone may not be touched while its slot
-- moves to another server of a Cluster.
local writers, writer, channel, publish = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local waiting = redis.call('hlen', writers)
if redis.call('hdel', writers, writer) == 0 then
  return 0
end
if waiting == 1 then
  return tell(1, publish, channel, '1')
end
return 1
