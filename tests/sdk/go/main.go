// Tool loops of three turns with three clients for Go. The first argument names the client; what came is printed as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
)

var (
	url       = os.Getenv("URL")
	ollamaURL = os.Getenv("OLLAMA_URL")
	key       = os.Getenv("KEY")
	ctx       = context.Background()
)

type step struct {
	Step int `json:"step"`
}

// What the tool answers: the last turn repeats it, so that a lost result is seen.
func look(arguments string) string {
	var asked step
	must(json.Unmarshal([]byte(arguments), &asked))
	return fmt.Sprintf("result %d", asked.Step)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	told := map[string]func() map[string]any{"openai": openaiTold, "anthropic": anthropicTold, "ollama": ollamaTold}
	must(json.NewEncoder(os.Stdout).Encode(told[os.Args[1]]()))
}
