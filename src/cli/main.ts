import { runProcess } from './frame/run-process.ts'
import { verbs } from './registry.ts'

await runProcess(verbs, process.argv.slice(2))
