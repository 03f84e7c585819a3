import { posixServer } from './posix-server.ts'
import type { ServerSystem } from './server-system.ts'
import { windowsServer } from './windows-server.ts'

/** Of this system. */
export const ownServer: ServerSystem = process.platform === 'win32' ? windowsServer : posixServer
