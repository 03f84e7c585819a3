import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EmbeddedDatabaseError, leaveEmbeddedRunning } from '../../src/db/embedded.ts'

/**
 * A program of its own, because `bun test` ends the child processes of a test that timed out, and this server is there
 * for all tests. Makes it run in a fixed folder, writes its URL to stdout and leaves it running for the next run.
 */
const options = {
  dataDir: join(tmpdir(), `penstock-test-${process.getuid?.() ?? 0}`),
  log: { info: () => {}, warn: () => {} },
  connectionsMax: 200,
  durable: false,
  preferNobody: true,
}
const lockWaitMs = 30_000

for (const deadline = performance.now() + lockWaitMs; ; await Bun.sleep(50)) {
  try {
    process.stdout.write(await leaveEmbeddedRunning(options))
    break
  } catch (error) {
    // Another process is starting it at this moment.
    if (!(error instanceof EmbeddedDatabaseError) || performance.now() > deadline) throw error
  }
}
