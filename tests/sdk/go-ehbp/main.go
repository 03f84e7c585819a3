// Sealed chat with EHBP's own client for Go. The first argument names what to do; what came is printed as JSON.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/tinfoilsh/encrypted-http-body-protocol/client"
	"github.com/tinfoilsh/encrypted-http-body-protocol/identity"
)

var (
	gateway = os.Getenv("GATEWAY")
	key     = os.Getenv("KEY")
	node    = os.Getenv("NODE_ID")
	other   = os.Getenv("OTHER_NODE_ID")
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func base(node string) string {
	return gateway + "/v1/sealed/nodes/" + node
}

func configOf(node string) []byte {
	request, err := http.NewRequest("GET", base(node)+"/.well-known/hpke-keys", nil)
	must(err)
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	must(err)
	config, err := io.ReadAll(response.Body)
	must(err)
	return config
}

// A client that seals for the key of one node.
func sealingFor(node string) *http.Client {
	return sealingWith(configOf(node))
}

func sealingWith(config []byte) *http.Client {
	transport, err := client.NewTransportWithConfig(gateway, config)
	must(err)
	return &http.Client{Transport: transport}
}

func asked(body map[string]any, node string) *http.Request {
	body["model"] = "m-1"
	if body["messages"] == nil {
		body["messages"] = []any{map[string]any{"role": "user", "content": "hello"}}
	}
	text, err := json.Marshal(body)
	must(err)
	request, err := http.NewRequest("POST", base(node)+"/chat/completions", bytes.NewReader(text))
	must(err)
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-SVC-Model", "m-1")
	return request
}

type completion struct {
	Choices []struct {
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
	} `json:"choices"`
	Error struct {
		Code string `json:"code"`
	} `json:"error"`
}

func whole(http *http.Client, body map[string]any) (int, completion) {
	response, err := http.Do(asked(body, node))
	must(err)
	defer response.Body.Close()
	var answer completion
	must(json.NewDecoder(response.Body).Decode(&answer))
	return response.StatusCode, answer
}

func all() map[string]any {
	sealing := sealingFor(node)
	_, answer := whole(sealing, map[string]any{})
	response, err := sealing.Do(asked(map[string]any{"stream": true}, node))
	must(err)
	streamed, err := io.ReadAll(response.Body)
	must(err)
	status, refused := whole(sealing, map[string]any{"messages": 3})
	_, wrong := sealingFor(other).Do(asked(map[string]any{}, node))
	return map[string]any{
		"whole":     answer.Choices[0].Message.Content,
		"streamed":  strings.HasSuffix(string(streamed), "data: [DONE]\n\n"),
		"refused":   []any{status, refused.Error.Code},
		"wrong_key": identity.IsKeyConfigError(wrong),
	}
}

// Seals for the key that CONFIG has from before, and for the present one where the node says that it has another.
func held() map[string]any {
	config, err := base64.StdEncoding.DecodeString(os.Getenv("CONFIG"))
	must(err)
	response, err := sealingWith(config).Do(asked(map[string]any{}, node))
	replaced := identity.IsKeyConfigError(err)
	if replaced {
		response, err = sealingFor(node).Do(asked(map[string]any{}, node))
	}
	must(err)
	defer response.Body.Close()
	var answer completion
	must(json.NewDecoder(response.Body).Decode(&answer))
	return map[string]any{"replaced": replaced, "whole": answer.Choices[0].Message.Content}
}

// Leaves in the middle of a stream.
func leave() map[string]any {
	response, err := sealingFor(node).Do(asked(map[string]any{"stream": true}, node))
	must(err)
	first := make([]byte, 5)
	_, err = io.ReadFull(response.Body, first)
	must(err)
	must(response.Body.Close())
	return map[string]any{"first": string(first)}
}

func main() {
	told := map[string]func() map[string]any{"all": all, "held": held, "leave": leave}
	must(json.NewEncoder(os.Stdout).Encode(told[os.Args[1]]()))
}
