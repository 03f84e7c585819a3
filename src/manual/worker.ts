import { makeManual } from './make.ts'

declare const self: Worker

self.postMessage(await makeManual())
