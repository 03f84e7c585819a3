import { linux } from './linux.ts'
import { macos } from './macos.ts'
import type { Platform } from './platform.ts'
import { windows } from './windows.ts'

/** By Node's names of them. */
const platforms: Readonly<Record<string, Platform>> = { linux, darwin: macos, win32: windows }

/** null: nobody has written down what this system does differently. */
export const platformNamed = (name: string = process.platform): Platform | null => platforms[name] ?? null

/** A system that nobody has written down is one of the POSIX family; only its services are not known. */
const own = platformNamed() ?? linux

/** Of this system. */
export const { folders, folderRules, endTree } = own
