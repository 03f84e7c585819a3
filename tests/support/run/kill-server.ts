import type { Sql } from 'postgres'

/** `kill -9` of a database server and of all of its processes at once: nothing that waits in memory reaches the disk. */
export async function killServer(sql: Sql): Promise<void> {
  const [file] = await sql<{ text: string }[]>`select pg_read_file('postmaster.pid') as text`
  const others = await sql<{ pid: number }[]>`select pid from pg_stat_activity`
  for (const pid of [Number.parseInt(file?.text ?? '', 10), ...others.map((each) => each.pid)]) {
    process.kill(pid, 'SIGKILL')
  }
}
