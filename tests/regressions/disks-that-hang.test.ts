import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { Statfs } from '../../src/node/hardware/disk.ts'
import { watchHardware } from '../../src/node/hardware/hardware-watch.ts'
import { type FakeHardware, fakeHardware } from '../support/nodes/fake-hardware.ts'

let computer: FakeHardware
beforeEach(() => {
  computer = fakeHardware()
})
afterEach(() => computer.remove())
const watchOf = (statfs: Statfs) =>
  watchHardware({
    ...{ folder: computer.place, path: computer.path, root: computer.root, platform: 'linux', statfs },
    ...{ everyMs: 600_000, toolMs: 50 },
  })
const memory = (kib: number) =>
  computer.file('proc/meminfo', `MemTotal:       ${kib} kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n`)

test('§39: a disk that never answers leaves out its own number, and what else is seen stays fresh', async () => {
  let asked = 0
  let answers = true
  const hung = Promise.withResolvers<never>()
  memory(2_048)
  const watch = watchOf(async () => {
    asked++
    return answers ? { bavail: 1_024, bsize: 1_048_576 } : hung.promise
  })
  await watch.look()
  expect(watch.now()).toMatchObject({ memory_total_mb: 2, disk_free_mb: 1_024 })
  answers = false
  for (const kib of [4_096, 8_192]) {
    memory(kib)
    await watch.look()
    expect(watch.now()?.memory_total_mb).toBe(kib / 1_024)
    expect(watch.now()?.disk_free_mb).toBeUndefined()
  }
  // One question waits for it, whatever it takes.
  expect(asked).toBe(2)
  hung.reject(new Error('gone'))
  await watch.stop()
})

test('§39: a disk of more than 16 TiB is told', async () => {
  const watch = watchOf(async () => ({ bavail: 30 * 1_024 * 1_024, bsize: 1_048_576 }))
  await watch.look()
  expect(watch.now()?.disk_free_mb).toBe(30 * 1_024 * 1_024)
  await watch.stop()
})
