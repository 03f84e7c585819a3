import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Place } from '../../src/db/embedded/server-system.ts'
import { windowsServer } from '../../src/db/embedded/windows-server.ts'

/** What of it needs no Windows; the rest: tests/heavy/windows-database.test.ts. */
const root = mkdtempSync(join(tmpdir(), 'penstock-windows-server-'))
afterAll(() => rmSync(root, { recursive: true }))

const portOf = (reach: ReturnType<typeof windowsServer.reach>) => ('port' in reach ? reach.port : 0)

test('§25: on Windows the server keeps its port, and takes another one where a program has it', () => {
  const port = portOf(windowsServer.reach(root, root, null))
  expect(port).toBeGreaterThan(0)
  const reach = windowsServer.reach(root, root, null)
  expect(reach).toEqual({ port })
  const place: Place = {
    ...{ account: null, accountShared: false, root, home: root, reach },
    ...{ data: join(root, 'data'), logFile: join(root, 'log'), password: '', copiesFolder: root },
  }
  expect(windowsServer.settle(place)).toEqual({ port })
  using _taken = Bun.listen({ hostname: '127.0.0.1', port, exclusive: true, socket: { data: () => {} } })
  const other = portOf(windowsServer.settle(place))
  expect(other).not.toBe(port)
  expect(windowsServer.reach(root, root, null)).toEqual({ port: other })
})

test('§25: on Windows the server listens on loopback alone, and a library that is not there is named', () => {
  expect(windowsServer.settings({ port: 5_432 })).toMatchObject({
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
  })
  expect(windowsServer.meaning(0xc000_0135)).toContain('Visual C++ Redistributable')
  expect(windowsServer.meaning(1)).toBeNull()
})
