import type { Hub } from './hub.ts'
import { huggingFace } from './hugging-face.ts'
import { nodes } from './nodes.ts'
import { ollama } from './ollama.ts'
import { web } from './web.ts'

export const hubs: readonly Hub[] = [huggingFace, ollama, web, nodes]
