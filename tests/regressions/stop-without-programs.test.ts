import { afterAll, expect, test } from 'bun:test'
import { spawn } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Symptom: a gateway whose packages were taken away or replaced while it ran, as by an update, could not stop its PostgreSQL.
 * Cause: PostgreSQL's programs were looked for before the server was asked to end, on systems that end it by a signal, too.
 * Fix: they are looked for where a system ends the server by one of them.
 */
const scratch = mkdtempSync(join(tmpdir(), 'stop-without-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

test.skipIf(process.platform === 'win32')('§25: the server ends although its programs are gone', async () => {
  // Outside the checkout there is no package of PostgreSQL.
  cpSync(join(import.meta.dir, '../../src'), join(scratch, 'src'), { recursive: true })
  const data = join(scratch, 'data')
  mkdirSync(data)
  const pidFile = join(data, 'postmaster.pid')
  writeFileSync(pidFile, '')
  // By its command line, which has the folder of the data, it is the server of this place.
  const server = spawn('tail', ['-f', pidFile], { stdio: 'ignore' })
  const ended = new Promise((resolve) => server.once('exit', (_, signal) => resolve(signal)))
  try {
    writeFileSync(pidFile, `${server.pid}\n${data}\n0\n5432\n${scratch}\n\n0 0\nready\n`)
    const program = join(scratch, 'stop.ts')
    writeFileSync(
      program,
      `import { stopServer } from './src/db/embedded/embedded-server.ts'
await stopServer(${JSON.stringify({ data, account: null, copiesFolder: scratch })} as never)`,
    )
    const stopping = Bun.spawn([process.execPath, '--no-install', program], { cwd: scratch, stderr: 'pipe' })
    expect([await stopping.exited, await new Response(stopping.stderr).text()]).toEqual([0, ''])
    expect(await ended).toBe('SIGINT')
  } finally {
    server.kill('SIGKILL')
  }
})
