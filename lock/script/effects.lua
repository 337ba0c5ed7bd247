-- Lets a script write after it has asked for a TTL.
--
-- A TTL may differ on a replica. A server older than Redis 7 that replicates scripts as text
-- (lua-replicate-commands no) therefore refuses writes after such a question. This fragment
-- precedes the scripts that need it and have no time limit: expire.lua does the same.
if redis.replicate_commands then
  redis.replicate_commands()
end
